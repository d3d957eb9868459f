/*
 * etag.h - the ETag of an object, as servers of S3 make nearly all of them: the MD5 of its bytes,
 * or of its parts' MD5s with "-" and their number behind it. 20 bytes, in memory as in a file.
 */
#ifndef SHOAL_BASE_ETAG_H
#define SHOAL_BASE_ETAG_H

#include "base/le.h"

struct shoal_etag {
	uint8_t digest[16];      /* zeros where none is kept */
	struct shoal_le32 parts; /* 0: it is of the whole; SHOAL_ETAG_NONE: none is kept */
};
_Static_assert(sizeof(struct shoal_etag) == 20, "an ETag is 20 bytes, also in catalogs");

#define SHOAL_ETAG_NONE UINT32_MAX

/*
 * Of @text, with or without quotes. Anything but 32 lower-case hexadecimal digits, or these with
 * "-" and a number, is SHOAL_ETAG_NONE: a server is to be sent exactly the bytes that it sent.
 */
struct shoal_etag shoal_etag_of(const char *text, size_t len);

static inline bool shoal_etag_is_kept(const struct shoal_etag *e)
{
	return shoal_le32_get(e->parts) != SHOAL_ETAG_NONE;
}

static inline bool shoal_etag_same(const struct shoal_etag *a, const struct shoal_etag *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/*
 * In quotes, as HTTP wants it, into @text of SHOAL_ETAG_MAX + 1 bytes, ended by a NUL: the length,
 * 0 of SHOAL_ETAG_NONE.
 */
size_t shoal_etag_print(const struct shoal_etag *e, char *text);

#endif
