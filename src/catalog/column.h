/* column.h - read a column, one unsigned number per file or extent: docs/format/catalog.md
 * section 5.
 */
#ifndef SHOAL_CATALOG_COLUMN_H
#define SHOAL_CATALOG_COLUMN_H

#include "catalog/catalog_format.h"

/* The three sections of a column follow one another in enum cat_section_id. */
struct cat_column {
	const struct cat_view *view;
	enum cat_section_id runs; /* then its blocks, then its data */
	uint64_t nr;              /* values: files, or extents */
};

/*
 * The value of file @id, which is less than the number of files, and the sum of all values before
 * it (pass NULL if not needed: it costs a scan of a block).
 */
int cat_column_get(const struct cat_column *c, uint64_t id, uint64_t *ret_value,
		   uint64_t *ret_sum_before) MUST_USE;

/* The number of the run that has the value of file @id, and its first file. */
int cat_column_run(const struct cat_column *c, uint64_t id, uint64_t *ret_number,
		   uint64_t *ret_first_id) MUST_USE;

/* The largest value, 0 for an empty column. Scans all blocks. */
int cat_column_largest(const struct cat_column *c, uint64_t *ret_value) MUST_USE;

/* The last file whose sum_before is at most @sum, and that sum. @sum is less than the total. */
int cat_column_find_sum(const struct cat_column *c, uint64_t sum, uint64_t *ret_id,
			uint64_t *ret_sum_before) MUST_USE;

#endif
