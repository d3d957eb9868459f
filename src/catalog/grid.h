/* grid.h - names whose decimal fields rise evenly in up to four nested dimensions. */
#ifndef SHOAL_CATALOG_GRID_H
#define SHOAL_CATALOG_GRID_H

#include "base/buf.h"
#include "base/span.h"

#define CAT_GRID_FIELDS 8
#define CAT_GRID_DIMS   4
#define CAT_GRID_WIDTH  18

struct cat_grid {
	unsigned nr_fields;
	unsigned nr_dims;
	struct {
		uint32_t pos; /* of its first digit in the name */
		uint32_t width;
		uint64_t value; /* in the first name */
	} field[CAT_GRID_FIELDS];
	struct {
		uint64_t extent;
		uint64_t delta[CAT_GRID_FIELDS]; /* modulo 2^64 */
	} dim[CAT_GRID_DIMS];
};

static inline bool cat_is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

/* The number written as @width digits at @p; UINT64_MAX if a byte is not a digit. */
uint64_t cat_digits_get(const uint8_t *p, unsigned width);

/* Write @v zero-padded to @width digits; higher digits are dropped. */
void cat_digits_put(uint8_t *p, unsigned width, uint64_t v);

/* How many names it has. */
uint64_t cat_grid_names(const struct cat_grid *g);

/* Turn its first name into its last one. */
void cat_grid_last(const struct cat_grid *g, uint8_t *name);

#endif
