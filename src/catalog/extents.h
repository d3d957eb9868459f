/* extents.h - read where samples lie inside files: docs/format/catalog.md section 10. */
#ifndef SHOAL_CATALOG_EXTENTS_H
#define SHOAL_CATALOG_EXTENTS_H

#include "catalog/column.h"

/*
 * The extent of sample @index of file @id, which has @count samples: 1. 0: the file has no extents,
 * its samples are equal parts. The extent is inside the file.
 */
int cat_extent(const struct cat_view *v, uint64_t id, uint64_t index, uint64_t count,
	       struct shoal_extent *ret_extent) MUST_USE;

/* The rows of the first @nr samples of file @id, which has @count. */
int cat_extent_rows(const struct cat_view *v, uint64_t id, uint64_t nr, uint64_t count,
		    uint64_t *ret_rows) MUST_USE;

#endif
