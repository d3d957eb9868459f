/*
 * decimal.h - numbers without leading zeros, in the byte order of their digits.
 *
 * Among the numbers 0 ... max the order is "1" "10" "11" "2" if the text after the number sorts
 * before the digits ('.', '/', or nothing), and "10" "11" "1" "2" if it sorts after them ('_').
 * Ranks in that order are dense where the numbers are dense; numeric values in that order would not
 * rise.
 */
#ifndef SHOAL_CATALOG_DECIMAL_H
#define SHOAL_CATALOG_DECIMAL_H

#include "base/base.h"

#define CAT_DECIMAL_DIGITS 18

struct cat_decimal {
	uint64_t max;    /* less than 10^18 */
	bool after;      /* a number sorts after the numbers that it is a prefix of */
	unsigned digits; /* of max */
};

/* 10^n, n at most 19. */
extern const uint64_t cat_pow10[20];

unsigned cat_decimal_digits(uint64_t v);

void cat_decimal_init(struct cat_decimal *d, uint64_t max, bool after);

/* The rank of @v, which is at most max. */
uint64_t cat_decimal_rank(const struct cat_decimal *d, uint64_t v);

/* The number at rank @rank, which is at most max. */
uint64_t cat_decimal_unrank(const struct cat_decimal *d, uint64_t rank);

#endif
