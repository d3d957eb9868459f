#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/out.h"
#include "base/text.h"

void json_put_out(void *self, const void *bytes, size_t len)
{
	out_write(self, bytes, len);
}

void json_put_buf(void *self, const void *bytes, size_t len)
{
	buf_append(self, bytes, len);
}

void json_put_file(void *self, const void *bytes, size_t len)
{
	fwrite(bytes, 1, len, self);
}

static void json_put_text(struct json *j, const char *text)
{
	j->put(j->self, text, strlen(text));
}

static void put_quoted(struct json *j, const char *text)
{
	size_t left = strlen(text);

	json_put_text(j, "\"");
	while (left > 0) {
		size_t n = utf8_len(text, left);
		char escape[8] = "\\ufffd";

		if (n != 0 && (unsigned char)*text < 0x20)
			snprintf(escape, sizeof(escape), "\\u%04x", (unsigned)*text);
		else if (n != 0 && (*text == '"' || *text == '\\'))
			snprintf(escape, sizeof(escape), "\\%c", *text);
		else if (n != 0)
			*escape = '\0';
		if (*escape)
			json_put_text(j, escape);
		else
			j->put(j->self, text, n);
		text += n ? n : 1;
		left -= n ? n : 1;
	}
	json_put_text(j, "\"");
}

static void put_newline(struct json *j)
{
	char line[64] = "\n";
	size_t spaces = u64_min((uint64_t)j->level * j->indent, sizeof(line) - 2);

	memset(line + 1, ' ', spaces);
	j->put(j->self, line, 1 + spaces);
}

/* Write what precedes a value: the comma after the previous one, a line break, the key. */
static void json_put_start(struct json *j, const char *key)
{
	if (j->begun)
		json_put_text(j, ",");
	if (j->level > 0 && j->level <= j->lines)
		put_newline(j);
	else if (j->begun)
		json_put_text(j, " ");
	if (key) {
		put_quoted(j, key);
		json_put_text(j, ": ");
	}
	j->begun = true;
}

static void put_open(struct json *j, const char *key, const char *bracket)
{
	json_put_start(j, key);
	json_put_text(j, bracket);
	j->level++;
	j->begun = false;
}

static void put_close(struct json *j, const char *bracket)
{
	bool on_lines = j->begun && j->level <= j->lines;

	j->level--;
	if (on_lines)
		put_newline(j);
	json_put_text(j, bracket);
	j->begun = true;
	if (j->level == 0)
		json_put_text(j, "\n");
}

void json_open_object(struct json *j, const char *key)
{
	put_open(j, key, "{");
}

void json_open_array(struct json *j, const char *key)
{
	put_open(j, key, "[");
}

void json_close_object(struct json *j)
{
	put_close(j, "}");
}

void json_close_array(struct json *j)
{
	put_close(j, "]");
}

void json_null(struct json *j, const char *key)
{
	json_put_start(j, key);
	json_put_text(j, "null");
}

void json_string(struct json *j, const char *key, const char *text)
{
	if (!text) {
		json_null(j, key);
		return;
	}
	json_put_start(j, key);
	put_quoted(j, text);
}

void json_u64(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	json_put_start(j, key);
	json_put_text(j, text);
}

void json_bool(struct json *j, const char *key, bool value)
{
	json_put_start(j, key);
	json_put_text(j, value ? "true" : "false");
}

void json_real(struct json *j, const char *key, double value, int digits)
{
	char text[48];

	if (!isfinite(value)) {
		json_null(j, key);
		return;
	}
	snprintf(text, sizeof(text), "%.*g", digits, value);
	/* Readers distinguish integers from reals by this. */
	if (!strpbrk(text, ".e"))
		memcpy(text + strlen(text), ".0", sizeof(".0"));
	json_put_start(j, key);
	json_put_text(j, text);
}

void json_seconds(struct json *j, const char *key, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
	json_put_start(j, key);
	json_put_text(j, text);
}

void json_format(struct json *j, const char *key, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	json_string(j, key, text);
}
