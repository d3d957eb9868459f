/* fixed.h - names of one length, whose varying bytes are the digits of a mixed-radix number. */
#ifndef SHOAL_CATALOG_FIXED_H
#define SHOAL_CATALOG_FIXED_H

#include "base/base.h"

#define CAT_FIXED_LIMBS  64
#define CAT_FIXED_PARTS  128
#define CAT_FIXED_RANGES 64

/* Adjacent bytes that share one set of allowed bytes. */
struct cat_part {
	uint32_t pos;
	uint32_t len;
	uint32_t radix;
	uint32_t nr_ranges;
	uint32_t first_size;   /* of the first range */
	uint32_t second;       /* what to add to a digit of the second of two ranges */
	const uint8_t *ranges; /* lo, hi, lo, hi ... */
};

/* Up to 64 bits of X: the digits of some parts as one number. */
struct cat_limb {
	uint8_t width; /* bits */
	uint16_t first_part, end_part;
	uint32_t shift; /* of its lowest bit in X */
};

struct cat_fixed {
	unsigned nr_limbs;
	unsigned nr_parts;
	unsigned bits; /* of X */
	struct cat_limb limb[CAT_FIXED_LIMBS];
	struct cat_part part[CAT_FIXED_PARTS];
};

#endif
