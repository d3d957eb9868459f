/* The files of the AWS tools: sections, settings, and settings indented below a setting. */
#include <string.h>

#include <openssl/crypto.h>

#include "store/s3/config.h"

#define LINE_BYTES 9216u /* a session token fits */

struct line {
	const char *text; /* without its end */
	size_t len;
};

/* The next line, or false. */
static bool ini_next_line(const char **at, const char *end, struct line *ret_line)
{
	const char *stop;

	if (*at >= end)
		return false;
	stop = memchr(*at, '\n', (size_t)(end - *at));
	stop = stop ? stop : end;
	*ret_line = (struct line){ *at, (size_t)(stop - *at) };
	*at = stop + 1;
	return true;
}

static bool ini_is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct line trim(struct line l)
{
	while (l.len > 0 && ini_is_space(l.text[0])) {
		l.text++;
		l.len--;
	}
	while (l.len > 0 && ini_is_space(l.text[l.len - 1]))
		l.len--;
	return l;
}

/* Whether it is "[@section]", with any spaces between words, and with @section in quotes or not. */
static bool is_section(struct line l, const char *section)
{
	const char *want = section;

	l = trim((struct line){ l.text + 1, l.len - 1 });
	for (size_t i = 0; i < l.len; i++) {
		char c = l.text[i];

		if (c == ']')
			return !*want;
		if (c == '"' || c == '\'')
			continue;
		if (ini_is_space(c)) {
			while (i + 1 < l.len && ini_is_space(l.text[i + 1]))
				i++;
			if (!*want || (i + 1 < l.len && l.text[i + 1] == ']'))
				continue;
			c = ' ';
		}
		if (c != *want || !*want)
			return false;
		want++;
	}
	return false; /* never closed */
}

/* A comment after a value needs a space before it: tokens may contain "#". */
static size_t value_len(struct line l)
{
	for (size_t i = 1; i < l.len; i++)
		if ((l.text[i] == '#' || l.text[i] == ';') && ini_is_space(l.text[i - 1]))
			return i;
	return l.len;
}

static bool ini_copy(struct line l, const char *front, char *out)
{
	size_t front_len = strlen(front);

	if (front_len + 1 + l.len >= LINE_BYTES || memchr(l.text, '\0', l.len))
		return false;
	memcpy(out, front, front_len);
	if (front_len > 0)
		out[front_len++] = '.';
	memcpy(out + front_len, l.text, l.len);
	out[front_len + l.len] = '\0';
	return true;
}

struct ini_reading {
	int (*take)(void *self, const char *key, const char *value);
	void *self;
	char above[LINE_BYTES]; /* the key without a value, above an indented one */
	char key[LINE_BYTES], value[LINE_BYTES];
};

static int ini_take_setting(struct ini_reading *r, struct line l)
{
	const char *equals = memchr(l.text, '=', l.len);
	bool indented = l.len > 0 && ini_is_space(l.text[0]);
	struct line key, value;

	if (!equals)
		return 0;
	key = trim((struct line){ l.text, (size_t)(equals - l.text) });
	value = (struct line){ equals + 1, l.len - (size_t)(equals + 1 - l.text) };
	value.len = value_len(value);
	value = trim(value);
	if (!ini_copy(key, indented ? r->above : "", r->key) || !ini_copy(value, "", r->value))
		return 0; /* no known key is as long */
	if (!indented)
		r->above[0] = '\0';
	if (!indented && value.len == 0 && !ini_copy(key, "", r->above))
		return 0;
	return value.len > 0 ? r->take(r->self, r->key, r->value) : 0;
}

int s3_ini_section(const char *text, size_t len, const char *section,
		   int (*take)(void *self, const char *key, const char *value), void *self)
{
	struct ini_reading r = { .take = take, .self = self };
	const char *at = text, *end = text + len;
	bool inside = false, found = false;
	struct line l, plain;
	int rc = 0;

	while (rc == 0 && ini_next_line(&at, end, &l)) {
		plain = trim(l);
		if (plain.len == 0 || plain.text[0] == '#' || plain.text[0] == ';')
			continue;
		if (l.text[0] == '[') {
			inside = is_section(plain, section);
			found = found || inside;
			r.above[0] = '\0';
		} else if (inside) {
			rc = ini_take_setting(&r, l);
		}
	}
	OPENSSL_cleanse(&r, sizeof(r));
	return rc != 0 ? rc : found;
}
