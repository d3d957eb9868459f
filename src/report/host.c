#include "report/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* Remove spaces at both ends. */
static char *trim_blanks(char *text)
{
	size_t len;

	while (isspace((unsigned char)*text))
		text++;
	len = strlen(text);
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		text[--len] = '\0';
	return text;
}

void report_put_proc(struct json *j, const char *key, const char *path)
{
	char line[4096], *colon;
	FILE *f = fopen(path, "r");

	json_open_object(j, key);
	while (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
		colon = strchr(line, ':');
		if (!colon)
			continue;
		*colon = '\0';
		json_string(j, trim_blanks(line), trim_blanks(colon + 1));
	}
	json_close_object(j);
	if (f)
		fclose(f);
}

void report_put_processor(struct json *j, const char *key)
{
	struct utsname u;

	json_string(j, key, uname(&u) == 0 ? u.machine : "");
}
