/*
 * s3_keys.h - where to cut a range of keys of which only some have been seen.
 *
 * What bytes stand at each place of a key is learnt from those that were seen. Between two keys,
 * the keys of which such bytes can be made are then numbered in their order, on a scale from 0 up;
 * half way on that scale is where to cut. Numbers go on to all digits, and to hex digits where a
 * later place of the same word has some: the first page of a list shows little of what leading
 * digits may become. Nothing depends on a guess but how evenly work is cut.
 */
#ifndef SHOAL_STORE_S3_KEYS_H
#define SHOAL_STORE_S3_KEYS_H

#include "base/err.h"

#define S3_KEYS_PLACES 192u /* of a name that are looked at */

/* Bytes seen at each place, as sets; any thread adds to them, atomically. */
struct s3_keys {
	uint64_t seen[S3_KEYS_PLACES][4];
	uint64_t version; /* counts what was new */
};

void s3_keys_learn(struct s3_keys *k, const uint8_t *name, size_t len);

struct s3_scale {
	const uint8_t *head; /* what both ends share; lent */
	size_t shared;
	size_t nr;      /* places on the scale */
	uint64_t total; /* one past the last number */
	uint16_t radix[S3_KEYS_PLACES];
	uint64_t set[S3_KEYS_PLACES][4];
};

/* A scale for what lies between @lo, which is lent, and @hi. NULL for @hi: no end. */
void s3_scale_init(struct s3_scale *s, const struct s3_keys *k, const uint8_t *lo, size_t lo_len,
		   const uint8_t *hi, size_t hi_len);

/* A scale for all names that begin with the first @len bytes of @head, which is lent. */
void s3_scale_under(struct s3_scale *s, const struct s3_keys *k, const uint8_t *head, size_t len);

/* How many numbers the names have that begin with the first @len bytes of one; at least 1. */
uint64_t s3_scale_width(const struct s3_scale *s, size_t len);

/* The number of a name. What lies in front of the scale is 0, behind it total. */
uint64_t s3_scale_at(const struct s3_scale *s, const uint8_t *name, size_t len);

/* The shortest name of a number, into @name of SHOAL_NAME_MAX bytes: its length. */
size_t s3_scale_name(const struct s3_scale *s, uint64_t at, uint8_t *name);

/* How much of a name is UTF-8: all of it, as of most names, or up to where it is not. */
size_t s3_text_len(const uint8_t *name, size_t len);

/*
 * Make a name of SHOAL_NAME_MAX bytes at most UTF-8: its length then. It ends where it was none,
 * with the lowest character that begins as what was there, if any does. So as good as nothing lies
 * between what it was and what it is.
 */
size_t s3_text_mend(uint8_t *name, size_t len);

#endif
