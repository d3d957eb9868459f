/* shape.h - a segment's shape, parsed once to compute many of its names. */
#ifndef SHOAL_CATALOG_SHAPE_H
#define SHOAL_CATALOG_SHAPE_H

#include "catalog/decimal.h"
#include "catalog/fixed.h"
#include "catalog/grid.h"
#include "catalog/segment.h"
#include "catalog/values.h"

struct cat_fixed_shape {
	struct cat_fixed digits;
	struct cat_values values;
};

struct cat_decimal_shape {
	size_t prefix_len;
	size_t suffix_len;
	const uint8_t *suffix;
	struct cat_decimal numbers;
	struct cat_values values;
};

/* Which of them it is depends on the segment's kind; names that are front-coded have none. */
union cat_shape {
	struct cat_grid grid;
	struct cat_fixed_shape fixed;
	struct cat_decimal_shape decimal;
};

/* Parse the shape of a segment. */
int cat_shape_parse(const struct cat_segment *seg, union cat_shape *ret_shape) MUST_USE;

/* cat_segment_name(), with the shape of the segment. */
int cat_shape_name(const struct cat_segment *seg, const union cat_shape *shape, uint64_t i,
		   uint8_t *buf) MUST_USE;

int cat_grid_parse(const struct cat_segment *seg, struct cat_grid *ret_grid) MUST_USE;
int cat_grid_put(const struct cat_segment *seg, const struct cat_grid *g, uint64_t i,
		 uint8_t *buf) MUST_USE;
int cat_fixed_parse(const struct cat_segment *seg, struct cat_fixed_shape *ret_shape) MUST_USE;
int cat_fixed_put(const struct cat_segment *seg, const struct cat_fixed_shape *sh, uint64_t i,
		  uint8_t *buf) MUST_USE;
int cat_decimal_parse(const struct cat_segment *seg, struct cat_decimal_shape *ret_shape) MUST_USE;
int cat_decimal_put(const struct cat_segment *seg, const struct cat_decimal_shape *sh, uint64_t i,
		    uint8_t *buf) MUST_USE;

#endif
