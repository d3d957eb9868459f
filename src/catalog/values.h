/*
 * values.h - a strictly ascending sequence of numbers of up to 512 bits, stored as evenly spaced or
 * as an Elias-Fano list. docs/format/catalog.md section 4.
 */
#ifndef SHOAL_CATALOG_VALUES_H
#define SHOAL_CATALOG_VALUES_H

#include "base/buf.h"
#include "base/span.h"
#include "catalog/catalog_format.h"

#define CAT_X_BITS_MAX  512
#define CAT_X_WORDS     (CAT_X_BITS_MAX / 64)
#define CAT_EF_NAMES    (UINT64_C(1) << 20)
#define CAT_EF_HIGH_MAX (UINT64_C(1) << 28)
#define CAT_EF_PLAIN    2048u /* up to this many high bits there are no select samples */
#define CAT_EF_SAMPLE   256u

enum cat_coding { CAT_LINEAR = 0, CAT_ELIAS_FANO = 1 };

/* A number of up to 512 bits, least significant word first. */
struct cat_x {
	uint64_t w[CAT_X_WORDS];
};

struct cat_values {
	uint64_t nr;
	unsigned bits;  /* width of X */
	unsigned words; /* words of X in use */
	enum cat_coding coding;
	uint64_t first, stride; /* LINEAR */
	unsigned low_bits;      /* ELIAS_FANO from here on */
	uint64_t high;          /* H of the last value */
	const uint8_t *base;    /* X_0 >> low_bits */
	size_t base_len;
	const struct cat_view *view; /* for the pages of the low array */
	uint64_t low_off;            /* of the low array in NAME; LINEAR: of the payload */
	const uint8_t *low_array, *high_array, *ones, *zeros;
	size_t low_len, high_len;
};

/*
 * Parse the values of @nr numbers of @bits bits. @s is at the coding byte, in a part of the payload
 * that was checked already. @span_base is at offset @span_off of NAME. The arrays may extend up to
 * @payload_end of NAME.
 */
int cat_values_parse(const struct cat_view *v, struct span *s, const uint8_t *span_base,
		     uint64_t span_off, uint64_t payload_end, uint64_t nr, unsigned bits,
		     struct cat_values *ret_values) MUST_USE;

/* Write X_i, `words` words of it, to @ret_x. @i is less than nr. */
int cat_values_get(const struct cat_values *vs, uint64_t i, struct cat_x *ret_x) MUST_USE;

/* Find the i with X_i = @x. Returns 1 if there is one, otherwise 0. */
int cat_values_find(const struct cat_values *vs, const struct cat_x *x, uint64_t *ret_i) MUST_USE;

/* Whether the high bits and the select samples agree with each other. Scans all of them. */
int cat_values_check(const struct cat_values *vs) MUST_USE;

/* Bits [@off, @off + @n) of @x, at most 64. */
static inline uint64_t cat_x_get(const struct cat_x *x, unsigned off, unsigned n)
{
	unsigned word = off / 64, shift = off % 64;
	uint64_t v = x->w[word] >> shift;

	if (shift + n > 64)
		v |= x->w[word + 1] << (64 - shift);
	return n == 64 ? v : v & ((UINT64_C(1) << n) - 1);
}

/* OR the low @n bits of @v into @x at bit @off, where @x is zero. */
static inline void cat_x_put(struct cat_x *x, unsigned off, unsigned n, uint64_t v)
{
	unsigned word = off / 64, shift = off % 64;

	x->w[word] |= v << shift;
	if (shift + n > 64)
		x->w[word + 1] |= v >> (64 - shift);
}

/*
 * Append the coded @xs, each @words words of a number of @bits bits, to @b. They are strictly
 * ascending.
 */
void cat_values_write(struct buf *b, const uint64_t *xs, uint64_t nr, unsigned words,
		      unsigned bits);

#endif
