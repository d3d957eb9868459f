/* text.h - numbers and sizes as people write them. */
#ifndef SHOAL_BASE_TEXT_H
#define SHOAL_BASE_TEXT_H

#include "base/err.h"

/* Decimal digits only, all of @text. -EINVAL for anything else, -ERANGE past 2^64. */
int shoal_parse_u64(const char *text, uint64_t *ret_value) SHOAL_MUST_USE;

/* As above, for @len bytes. */
int shoal_parse_digits(const char *text, size_t len, uint64_t *ret_value) SHOAL_MUST_USE;

/* A number with an optional K, M, G or T (or KiB ...: powers of 1024; KB ...: of 1000). */
int shoal_parse_size(const char *text, uint64_t *ret_bytes) SHOAL_MUST_USE;

/* What a noun ends in after @nr of it: "1 file", "2 files". */
static inline const char *shoal_plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

/*
 * Length of the UTF-8 sequence that @text starts with, of which there are @left bytes (at least 1);
 * 0 when it is none. Overlong forms and surrogates are none.
 */
size_t shoal_utf8_len(const char *text, size_t left);

/* Whether a part of a path is "..". */
bool shoal_path_goes_up(const char *path, size_t len);

/* @text was cut to fit its place: it ends in "..." from here on, in place of whole characters. */
void shoal_mark_cut(char *text);

/* Whether the bytes are UTF-8, without control characters. */
bool shoal_is_plain_utf8(const char *text, size_t len);

#endif
