/* recent.h - names by their numbers, for a reader that looks up one after another. */
#ifndef SHOAL_CATALOG_RECENT_H
#define SHOAL_CATALOG_RECENT_H

#include "catalog/shape.h"
#include "shoal.h"

/* The segment of the last name, parsed. All zeros: there is none. Used by one thread, with one
 * catalog. */
struct cat_recent {
	bool has_seg;
	struct cat_segment seg;
	union cat_shape shape;
};

/* shoal_catalog_name(). A name of the same segment as the last one takes a third of its
 * instructions. */
int cat_recent_name(const struct shoal_catalog *cat, struct cat_recent *recent, uint64_t id,
		    char *buf) MUST_USE;

#endif
