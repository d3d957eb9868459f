/*
 * values.h - a strictly rising sequence of numbers of up to 512 bits: evenly spaced, or as an
 * Elias-Fano list. docs/format/catalog.md section 4.
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
#define CAT_EF_PLAIN    2048u /* high bits up to which there are no samples */
#define CAT_EF_SAMPLE   256u

enum cat_coding { CAT_LINEAR = 0, CAT_ELIAS_FANO = 1 };

/* A number of up to 512 bits, least significant word first. */
struct cat_x {
	uint64_t w[CAT_X_WORDS];
};

struct cat_values {
	uint64_t nr;
	unsigned bits;  /* width of X */
	unsigned words; /* that many words of X are used */
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
 * Parse the values of @nr numbers of @bits bits. @s stands at the coding byte, inside a part of the
 * payload that was already asked for; @span_base lies at @span_off of NAME, and
 * the arrays may reach up to @payload_end of NAME.
 */
int cat_values_parse(const struct cat_view *v, struct shoal_span *s, const uint8_t *span_base,
		     uint64_t span_off, uint64_t payload_end, uint64_t nr, unsigned bits,
		     struct cat_values *ret_values) SHOAL_MUST_USE;

/* X_i into @ret_x, of which `words` words are written. @i is less than nr. */
int cat_values_get(const struct cat_values *vs, uint64_t i, struct cat_x *ret_x) SHOAL_MUST_USE;

/* The i with X_i = @x: 1 when there is one, else 0. */
int cat_values_find(const struct cat_values *vs, const struct cat_x *x,
		    uint64_t *ret_i) SHOAL_MUST_USE;

/* Whether the high bits and the samples agree with each other. Walks all of them. */
int cat_values_check(const struct cat_values *vs) SHOAL_MUST_USE;

/* Bits [@off, @off + @n) of @x, at most 64. */
static inline uint64_t cat_x_get(const struct cat_x *x, unsigned off, unsigned n)
{
	unsigned word = off / 64, shift = off % 64;
	uint64_t v = x->w[word] >> shift;

	if (shift + n > 64)
		v |= x->w[word + 1] << (64 - shift);
	return n == 64 ? v : v & ((UINT64_C(1) << n) - 1);
}

/* Or the low @n bits of @v in at bit @off, where @x is zero. */
static inline void cat_x_put(struct cat_x *x, unsigned off, unsigned n, uint64_t v)
{
	unsigned word = off / 64, shift = off % 64;

	x->w[word] |= v << shift;
	if (shift + n > 64)
		x->w[word + 1] |= v >> (64 - shift);
}

/*
 * Append the coded @xs, each of @words words of a number of @bits bits, to @b. They rise strictly.
 */
void cat_values_write(struct shoal_buf *b, const uint64_t *xs, uint64_t nr, unsigned words,
		      unsigned bits);

/* About how many bytes cat_values_write() will append, from the first and last value. */
uint64_t cat_values_cost(const uint64_t *first, const uint64_t *last, uint64_t nr, unsigned words);

#endif
