/* column.h - read one unsigned number a file: docs/format/catalog.md section 5. */
#ifndef SHOAL_CATALOG_COLUMN_H
#define SHOAL_CATALOG_COLUMN_H

#include "catalog/catalog_format.h"

/* The three sections of a column follow one another in enum cat_section_id. */
struct cat_column {
	const struct cat_view *view;
	enum cat_section_id runs; /* then its blocks, then its data */
};

/*
 * Value of file @id, which is less than the number of files, and the sum of all values before it
 * (NULL when it is not wanted: it costs a walk through a block).
 */
int cat_column_get(const struct cat_column *c, uint64_t id, uint64_t *ret_value,
		   uint64_t *ret_sum_before) SHOAL_MUST_USE;

/* The largest value; 0 of none. Goes through all blocks. */
int cat_column_largest(const struct cat_column *c, uint64_t *ret_value) SHOAL_MUST_USE;

/* The last file whose sum_before is at most @sum, and that sum. @sum is less than the total. */
int cat_column_find_sum(const struct cat_column *c, uint64_t sum, uint64_t *ret_id,
			uint64_t *ret_sum_before) SHOAL_MUST_USE;

#endif
