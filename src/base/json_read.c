#include "base/json_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

struct json_reader {
	const char *start, *at, *end;
	json_each_fn *each;
	void *self;
	struct shoal_err *err;
	unsigned depth;
	size_t path_len;
	char path[JSON_PATH_MAX];
	char text[JSON_TEXT_MAX + 4];
};

static int reader_fail(struct json_reader *r, const char *what)
{
	size_t line = 1;

	for (const char *c = r->start; c < r->at; c++)
		line += *c == '\n';
	return err_set(r->err, -EBADMSG, "line %zu is not JSON: %s%s", line, what,
		       r->at >= r->end ? ", but the text ends there" : "");
}

static char peek(struct json_reader *r)
{
	while (r->at < r->end &&
	       (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
	return (char)(r->at < r->end ? *r->at : '\0');
}

/* ---- Strings ---- */

/* Four hexadecimal digits; -1 if they are not. */
static int hex4(const struct json_reader *r, const char *at)
{
	int v = 0;

	if (r->end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		int digit = text_hex_digit(at[i]);

		if (digit < 0)
			return -1;
		v = v * 16 + digit;
	}
	return v;
}

/* What follows a backslash and 'u'; a pair of surrogates is one character, half of one U+FFFD. */
static int reader_unicode(struct json_reader *r, unsigned *ret_c)
{
	int c = hex4(r, r->at), low;

	if (c < 0)
		return reader_fail(r, "an escape needs four hexadecimal digits");
	r->at += 4;
	*ret_c = (unsigned)c;
	if (c < 0xd800 || c > 0xdfff)
		return 0;
	*ret_c = 0xfffd;
	if (c > 0xdbff || r->end - r->at < 6 || r->at[0] != '\\' || r->at[1] != 'u')
		return 0;
	low = hex4(r, r->at + 2);
	if (low < 0xdc00 || low > 0xdfff)
		return 0;
	r->at += 6;
	*ret_c = 0x10000u + (((unsigned)c - 0xd800u) << 10) + ((unsigned)low - 0xdc00u);
	return 0;
}

static int reader_escape(struct json_reader *r, unsigned *ret_c)
{
	static const char names[] = "\"\\/bfnrt", chars[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (r->at >= r->end)
		return reader_fail(r, "a string has no end");
	if (*r->at == 'u') {
		r->at++;
		return reader_unicode(r, ret_c);
	}
	found = *r->at ? strchr(names, *r->at) : NULL;
	if (!found)
		return reader_fail(r, "there is no such escape");
	*ret_c = (unsigned char)chars[found - names];
	r->at++;
	return 0;
}

/* The content of the string that begins here goes to r->text, as much as fits. */
static int reader_string(struct json_reader *r)
{
	size_t fill = 0, n;
	unsigned c = 0;
	int rc;

	r->at++;
	while (r->at < r->end && *r->at != '"') {
		char *to = r->text + (fill < JSON_TEXT_MAX ? fill : JSON_TEXT_MAX);

		if ((unsigned char)*r->at < 0x20)
			return reader_fail(r, "a string has a control character");
		if (*r->at == '\\') {
			r->at++;
			rc = reader_escape(r, &c);
			if (rc < 0)
				return rc;
			n = utf8_put(to, c);
		} else {
			n = utf8_len(r->at, (size_t)(r->end - r->at));
			if (n == 0)
				return reader_fail(r, "a string is not UTF-8");
			memcpy(to, r->at, n);
			r->at += n;
		}
		if (fill + n <= JSON_TEXT_MAX)
			fill += n;
	}
	if (r->at >= r->end)
		return reader_fail(r, "a string has no end");
	r->at++;
	r->text[fill] = '\0';
	return 0;
}

/* ---- Scalars ---- */

static int reader_give(struct json_reader *r, enum json_kind kind, double number)
{
	struct json_value v = { .path = r->path, .kind = kind, .text = r->text, .number = number };

	return r->each(r->self, &v);
}

static size_t span_digits(const struct json_reader *r, const char *at)
{
	size_t n = 0;

	while (at + n < r->end && at[n] >= '0' && at[n] <= '9')
		n++;
	return n;
}

static int reader_number(struct json_reader *r)
{
	const char *at = r->at + (*r->at == '-');
	size_t n = span_digits(r, at), len;

	if (n == 0 || (n > 1 && *at == '0'))
		return reader_fail(r, "it is not a number");
	at += n;
	if (at < r->end && *at == '.') {
		n = span_digits(r, at + 1);
		if (n == 0)
			return reader_fail(r, "it is not a number");
		at += 1 + n;
	}
	if (at < r->end && (*at == 'e' || *at == 'E')) {
		at += 1 + (at + 1 < r->end && (at[1] == '+' || at[1] == '-'));
		n = span_digits(r, at);
		if (n == 0)
			return reader_fail(r, "it is not a number");
		at += n;
	}
	len = (size_t)(at - r->at);
	if (len > 64)
		return reader_fail(r, "a number has too many digits");
	memcpy(r->text, r->at, len);
	r->text[len] = '\0';
	r->at = at;
	return reader_give(r, JSON_NUMBER, strtod(r->text, NULL));
}

static int reader_word(struct json_reader *r)
{
	static const struct {
		const char *word;
		enum json_kind kind;
	} words[] = { { "null", JSON_NULL }, { "false", JSON_FALSE }, { "true", JSON_TRUE } };

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		size_t len = strlen(words[i].word);

		if ((size_t)(r->end - r->at) < len || memcmp(r->at, words[i].word, len) != 0)
			continue;
		r->at += len;
		memcpy(r->text, words[i].word, len + 1);
		return reader_give(r, words[i].kind, (double)NAN);
	}
	return reader_fail(r, "a value is expected");
}

/* ---- Containers ---- */

static int reader_value(struct json_reader *r);

/* The value of member @name, or number @index if @name is NULL. */
static int reader_member(struct json_reader *r, const char *name, uint64_t index)
{
	size_t before = r->path_len, room = sizeof(r->path) - before;
	const char *dot = before > 0 ? "." : "";
	int n = name ? snprintf(r->path + before, room, "%s%s", dot, name)
		     : snprintf(r->path + before, room, "%s%" PRIu64, dot, index);
	int rc;

	r->path_len = u64_min(before + (size_t)(n > 0 ? n : 0), sizeof(r->path) - 1);
	rc = reader_value(r);
	r->path_len = before;
	r->path[before] = '\0';
	return rc;
}

static int reader_container(struct json_reader *r, bool object)
{
	char close = object ? '}' : ']';
	int rc = 0;

	if (r->depth == JSON_DEPTH_MAX)
		return reader_fail(r, "it is nested too deeply");
	r->depth++;
	r->at++;
	if (peek(r) == close) {
		r->at++;
		r->depth--;
		return 0;
	}
	for (uint64_t i = 0; rc == 0; i++) {
		if (object && peek(r) != '"')
			return reader_fail(r, "a member's name is expected");
		rc = object ? reader_string(r) : 0;
		if (rc == 0 && object && peek(r) != ':')
			return reader_fail(r, "':' is expected");
		r->at += rc == 0 && object;
		if (rc == 0)
			rc = reader_member(r, object ? r->text : NULL, i);
		if (rc == 0 && peek(r) == close)
			break;
		if (rc == 0 && peek(r) != ',')
			return reader_fail(r, object ? "',' or '}' is expected"
						     : "',' or ']' is expected");
		r->at++;
	}
	if (rc == 0)
		r->at++;
	r->depth--;
	return rc;
}

static int reader_value(struct json_reader *r)
{
	char c = peek(r);
	int rc;

	if (c == '{' || c == '[')
		return reader_container(r, c == '{');
	if (c == '"') {
		rc = reader_string(r);
		return rc < 0 ? rc : reader_give(r, JSON_STRING, (double)NAN);
	}
	if (c == '-' || (c >= '0' && c <= '9'))
		return reader_number(r);
	return reader_word(r);
}

int json_read(const char *text, size_t len, json_each_fn *each, void *self, struct shoal_err *err)
{
	struct json_reader r = {
		.start = text, .at = text, .end = text + len, .each = each, .self = self, .err = err
	};
	int rc = reader_value(&r);

	if (rc == 0 && peek(&r) != '\0')
		rc = reader_fail(&r, "there is more after the document");
	else if (rc == 0 && r.at < r.end)
		rc = reader_fail(&r, "there is a NUL byte after the document");
	return rc;
}
