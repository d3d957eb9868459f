/*
 * etag.h - the ETag of an object in the form that nearly all S3 servers use: the MD5 of its bytes,
 * or the MD5 of its parts' MD5s followed by "-" and the number of parts. 20 bytes, the same in
 * memory and in a file.
 */
#ifndef SHOAL_BASE_ETAG_H
#define SHOAL_BASE_ETAG_H

#include "base/le.h"

struct etag {
	uint8_t digest[16]; /* zeros if no ETag is stored */
	struct le32 parts;  /* 0: one upload; ETAG_NONE: no ETag is stored */
};
_Static_assert(sizeof(struct etag) == 20, "an ETag is 20 bytes, also in catalogs");

#define ETAG_NONE UINT32_MAX

/*
 * Parse @text, with or without quotes. Anything but 32 lower-case hexadecimal digits, optionally
 * followed by "-" and a number, becomes ETAG_NONE: a server must be sent exactly the bytes that it
 * sent.
 */
struct etag etag_parse(const char *text, size_t len);

static inline bool etag_is_kept(const struct etag *e)
{
	return le32_get(e->parts) != ETAG_NONE;
}

static inline bool etag_same(const struct etag *a, const struct etag *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/*
 * Write it in quotes, as HTTP requires, into @text (SHOAL_ETAG_MAX + 1 bytes), with a final NUL.
 * Returns the length, 0 for ETAG_NONE.
 */
size_t etag_print(const struct etag *e, char *text);

#endif
