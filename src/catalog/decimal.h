/*
 * decimal.h - numbers without leading zeros in the order in which their digits sort as bytes.
 *
 * Among the numbers 0 ... max, "1" "10" "11" "2" is the order when what follows the number sorts
 * before the digits ('.', '/', or nothing), and "10" "11" "1" "2" when it sorts after them ('_').
 * The place of a number in that order is dense where the numbers are, which plain numeric order
 * of variable-width names is not.
 */
#ifndef SHOAL_CATALOG_DECIMAL_H
#define SHOAL_CATALOG_DECIMAL_H

#include "base/base.h"

#define CAT_DECIMAL_DIGITS 18

struct cat_decimal {
	uint64_t max;    /* less than 10^18 */
	bool after;      /* a number comes after those that it is a prefix of */
	unsigned digits; /* of max */
};

/* 10^n, n at most 19. */
extern const uint64_t cat_pow10[20];

unsigned cat_decimal_digits(uint64_t v);

void cat_decimal_init(struct cat_decimal *d, uint64_t max, bool after);

/* The place of @v, which is at most max. */
uint64_t cat_decimal_rank(const struct cat_decimal *d, uint64_t v);

/* The number at place @rank, which is at most max. */
uint64_t cat_decimal_unrank(const struct cat_decimal *d, uint64_t rank);

#endif
