#include "report/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

/* Without blanks at both ends. */
static char *trim(char *text)
{
	size_t len;

	while (isspace((unsigned char)*text))
		text++;
	len = strlen(text);
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		text[--len] = '\0';
	return text;
}

json_t *report_proc_json(const char *path)
{
	json_t *o = json_object();
	char line[4096], *colon;
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
		colon = strchr(line, ':');
		if (!colon)
			continue;
		*colon = '\0';
		(void)!json_object_set_new(o, trim(line), json_string(trim(colon + 1)));
	}
	if (f)
		fclose(f);
	return o;
}

char *report_proc_text(const char *path)
{
	json_t *o = report_proc_json(path);
	char *text = o ? json_dumps(o, 0) : NULL;

	json_decref(o);
	return text;
}

const char *report_processor_name(void)
{
	static __thread struct utsname u;

	return uname(&u) == 0 ? u.machine : "";
}
