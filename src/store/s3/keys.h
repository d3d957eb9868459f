/*
 * keys.h - where to split a range of keys of which only some have been seen.
 *
 * The bytes that occur at each position of a key are learnt from the keys seen. Between two keys,
 * all keys that can be made of such bytes are numbered in order, on a scale from 0; the middle of
 * that scale is where to split. Digits are extended to all digits, or to hex digits if a later
 * position of the same word has some: the first page of a list shows little of the leading digits.
 * A wrong guess only makes the parts less equal.
 */
#ifndef SHOAL_STORE_S3_KEYS_H
#define SHOAL_STORE_S3_KEYS_H

#include "base/err.h"

#define S3_KEYS_PLACES 192u /* bytes of a name that are considered */

/* Bytes seen at each position, as sets; any thread adds to them, atomically. */
struct s3_keys {
	uint64_t seen[S3_KEYS_PLACES][4];
	uint64_t version; /* counts what was new */
};

void s3_keys_learn(struct s3_keys *k, const uint8_t *name, size_t len);

struct s3_scale {
	const uint8_t *head; /* the common prefix of both ends; lent */
	size_t shared;
	size_t nr;      /* positions on the scale */
	uint64_t total; /* one past the last number */
	uint16_t radix[S3_KEYS_PLACES];
	uint64_t set[S3_KEYS_PLACES][4];
};

/* A scale for the names between @lo, which is lent, and @hi. NULL for @hi: no end. */
void s3_scale_init(struct s3_scale *s, const struct s3_keys *k, const uint8_t *lo, size_t lo_len,
		   const uint8_t *hi, size_t hi_len);

/* A scale for all names that begin with the first @len bytes of @head, which is lent. */
void s3_scale_under(struct s3_scale *s, const struct s3_keys *k, const uint8_t *head, size_t len);

/* How many numbers the names have that begin with the first @len bytes of one; at least 1. */
uint64_t s3_scale_width(const struct s3_scale *s, size_t len);

/* The number of a name: 0 if it is before the scale, total if it is after it. */
uint64_t s3_scale_at(const struct s3_scale *s, const uint8_t *name, size_t len);

/* Write the shortest name of a number to @name, of SHOAL_NAME_MAX bytes. Returns its length. */
size_t s3_scale_name(const struct s3_scale *s, uint64_t at, uint8_t *name);

/* The length of the valid UTF-8 at the start of a name: all of most names. */
size_t s3_text_len(const uint8_t *name, size_t len);

/*
 * Make a name of at most SHOAL_NAME_MAX bytes valid UTF-8, and return its new length. It is
 * truncated at the first invalid byte, and the lowest character that begins with what was there
 * is added, if there is one. So almost no name lies between the old and the new one.
 */
size_t s3_text_mend(uint8_t *name, size_t len);

#endif
