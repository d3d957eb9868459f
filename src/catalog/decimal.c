#include "catalog/decimal.h"

#include <assert.h>

const uint64_t cat_pow10[20] = {
	UINT64_C(1),
	UINT64_C(10),
	UINT64_C(100),
	UINT64_C(1000),
	UINT64_C(10000),
	UINT64_C(100000),
	UINT64_C(1000000),
	UINT64_C(10000000),
	UINT64_C(100000000),
	UINT64_C(1000000000),
	UINT64_C(10000000000),
	UINT64_C(100000000000),
	UINT64_C(1000000000000),
	UINT64_C(10000000000000),
	UINT64_C(100000000000000),
	UINT64_C(1000000000000000),
	UINT64_C(10000000000000000),
	UINT64_C(100000000000000000),
	UINT64_C(1000000000000000000),
	UINT64_C(10000000000000000000),
};

/* 1, 11, 111, ...: nodes of a full subtree of digits, n levels deep. */
static const uint64_t repunit[20] = {
	UINT64_C(0),
	UINT64_C(1),
	UINT64_C(11),
	UINT64_C(111),
	UINT64_C(1111),
	UINT64_C(11111),
	UINT64_C(111111),
	UINT64_C(1111111),
	UINT64_C(11111111),
	UINT64_C(111111111),
	UINT64_C(1111111111),
	UINT64_C(11111111111),
	UINT64_C(111111111111),
	UINT64_C(1111111111111),
	UINT64_C(11111111111111),
	UINT64_C(111111111111111),
	UINT64_C(1111111111111111),
	UINT64_C(11111111111111111),
	UINT64_C(111111111111111111),
	UINT64_C(1111111111111111111),
};

unsigned cat_decimal_digits(uint64_t v)
{
	unsigned n = 1;

	while (n < 19 && v >= cat_pow10[n])
		n++;
	return n;
}

void cat_decimal_init(struct cat_decimal *d, uint64_t max, bool after)
{
	assert(max < cat_pow10[CAT_DECIMAL_DIGITS]);
	*d = (struct cat_decimal){ .max = max, .after = after, .digits = cat_decimal_digits(max) };
}

/* How many numbers of @len digits are below @bound and not above max. */
static uint64_t decimal_count_below(const struct cat_decimal *d, unsigned len, uint64_t bound)
{
	uint64_t low = cat_pow10[len - 1];

	if (len == d->digits && bound > d->max + 1)
		bound = d->max + 1;
	return bound > low ? bound - low : 0;
}

uint64_t cat_decimal_rank(const struct cat_decimal *d, uint64_t v)
{
	unsigned n = cat_decimal_digits(v);
	uint64_t rank = 1; /* zero sorts before all others */

	if (v == 0)
		return 0;
	for (unsigned len = 1; len <= d->digits; len++) {
		uint64_t bound; /* numbers of this length below it come before v */

		if (len < n) /* a prefix of v sorts before v, or after it */
			bound = v / cat_pow10[n - len] + !d->after;
		else if (len == n)
			bound = v;
		else /* a number that v is a prefix of sorts after v, or before it */
			bound = (v + d->after) * cat_pow10[len - n];
		rank += decimal_count_below(d, len, bound);
	}
	return rank;
}

/* How many numbers start with the prefix @v, which has @below fewer digits than max; v is one. */
static uint64_t count_under(const struct cat_decimal *d, uint64_t v, unsigned below)
{
	uint64_t edge = d->max / cat_pow10[below]; /* max's own prefix of that length */

	if (v != edge)
		return repunit[below + (v < edge)];
	return repunit[below] + (d->max - edge * cat_pow10[below]) + 1;
}

/*
 * The digit after the prefix @first / 10 whose subtree contains rank *@rank, counted from @first;
 * *@rank becomes the rank within that subtree. Digits below max's have full subtrees; then comes
 * the one on the path to max; the rest have subtrees that are one level shorter.
 */
static uint64_t next_digit(const struct cat_decimal *d, uint64_t first, uint64_t nr_digits,
			   unsigned below, uint64_t *rank)
{
	uint64_t edge = d->max / cat_pow10[below];
	uint64_t nr_full = edge > first ? u64_min(edge - first, nr_digits) : 0;
	uint64_t full = repunit[below + 1], cut = repunit[below];
	uint64_t digit = nr_full;

	if (*rank < nr_full * full) {
		digit = *rank / full;
		*rank %= full;
		return digit;
	}
	*rank -= nr_full * full;
	if (edge >= first && nr_full < nr_digits) {
		uint64_t mixed = count_under(d, edge, below);

		if (*rank < mixed)
			return digit;
		*rank -= mixed;
		digit++;
	}
	if (cut) {
		digit += *rank / cut;
		*rank %= cut;
	}
	return digit;
}

uint64_t cat_decimal_unrank(const struct cat_decimal *d, uint64_t rank)
{
	uint64_t v = 0;

	if (rank == 0)
		return 0;
	rank--; /* zero */
	for (unsigned depth = 1; depth <= d->digits; depth++) {
		unsigned below = d->digits - depth;
		uint64_t first = depth == 1 ? 1 : v * 10; /* no number starts with a zero */

		v = first + next_digit(d, first, depth == 1 ? 9 : 10, below, &rank);
		if (d->after ? rank + 1 >= count_under(d, v, below) : rank-- == 0)
			return v;
	}
	return v;
}
