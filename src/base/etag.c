#include "base/etag.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"

#define DIGITS 32u

static const char hex[] = "0123456789abcdef";

/* Sixteen bytes from 32 digits. */
static bool etag_parse_digest(const char *text, uint8_t *digest)
{
	for (size_t i = 0; i < DIGITS; i++) {
		unsigned c = (unsigned char)text[i], v = c - '0';

		if (c >= 'a' && c <= 'f')
			v = c - 'a' + 10;
		else if (v > 9)
			return false;
		digest[i / 2] = (uint8_t)((unsigned)digest[i / 2] << 4 | v);
	}
	return true;
}

/* The text after the digits: empty, or "-" and a number in canonical form. */
static bool etag_parse_parts(const char *text, size_t len, uint32_t *ret_parts)
{
	uint64_t parts = 0;

	if (len > 0 && (text[0] != '-' || len < 2 || text[1] == '0' ||
			parse_digits(text + 1, len - 1, &parts) < 0 || parts >= ETAG_NONE))
		return false;
	*ret_parts = (uint32_t)parts;
	return true;
}

struct etag etag_parse(const char *text, size_t len)
{
	struct etag e = { .digest = { 0 } };
	uint32_t parts = 0;

	if (len >= 2 && text[0] == '"' && text[len - 1] == '"') {
		text++;
		len -= 2;
	}
	if (len < DIGITS || !etag_parse_parts(text + DIGITS, len - DIGITS, &parts) ||
	    !etag_parse_digest(text, e.digest))
		return (struct etag){ .parts = le32_of(ETAG_NONE) };
	e.parts = le32_of(parts);
	return e;
}

size_t etag_print(const struct etag *e, char *text)
{
	uint32_t parts = le32_get(e->parts);
	char *p = text;

	*p = '\0';
	if (parts == ETAG_NONE)
		return 0;
	*p++ = '"';
	for (size_t i = 0; i < sizeof(e->digest); i++) {
		*p++ = hex[e->digest[i] >> 4];
		*p++ = hex[e->digest[i] & 15];
	}
	if (parts > 0)
		p += sprintf(p, "-%" PRIu32, parts);
	*p++ = '"';
	*p = '\0';
	return (size_t)(p - text);
}
