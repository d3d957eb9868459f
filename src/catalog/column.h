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

/* A decoded run, with its end. */
struct cat_column_run {
	uint64_t first_id, end_id;
	uint64_t sum_before;
	uint64_t value;
	uint32_t kind;
};

/*
 * A decoded block of a run, and its bits. A sparse one has the value that is at all positions but
 * some, then those at these positions.
 */
struct cat_column_block {
	uint64_t first_id;
	unsigned nr;
	uint64_t min, sum_before;
	unsigned width;
	const uint8_t *data;
	size_t data_len;
	const uint8_t *position; /* NULL: not sparse */
	unsigned nr_positions;
};

/* Run @k of the column, and block @k of a run. */
int cat_column_run_load(const struct cat_column *c, uint64_t k,
			struct cat_column_run *ret_run) MUST_USE;
int cat_column_block_load(const struct cat_column *c, const struct cat_column_run *r, uint64_t k,
			  struct cat_column_block *ret_block) MUST_USE;

/* Value @j of the block. */
uint64_t cat_column_block_value(const struct cat_column_block *b, unsigned j);

/* The sum of the first @nr values of the block. */
uint64_t cat_column_block_sum(const struct cat_column_block *b, unsigned nr);

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
