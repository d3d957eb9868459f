/*
 * column_writer.h - write a column, one unsigned number per file: docs/format/catalog.md section 5.
 */
#ifndef SHOAL_CATALOG_COLUMN_WRITER_H
#define SHOAL_CATALOG_COLUMN_WRITER_H

#include "catalog/column.h"
#include "catalog/stream.h"

struct cat_column_writer {
	struct cat_stream *runs, *blocks, *data; /* lent */
	uint64_t id;                             /* of the next value */
	uint64_t sum;                            /* of all values so far */
	uint64_t largest; /* largest of the values, including appended columns */
	uint64_t same;    /* the first value; */
	bool varies;      /* others differ from it */
	uint64_t cut_id;  /* the value at which the column was last cut */
	uint64_t run_sum; /* sum at the start of the open run */
	bool in_blocks;   /* a run of blocks is open */
	uint64_t nr_blocks;
	uint64_t constant, nr_constant; /* equal values that are not written yet */
	uint64_t block_sum;             /* of the values before the block being filled */
	bool may_be_sparse;             /* the caller sets it for columns of extents */
	bool sparse;                    /* a block is */
	unsigned fill;
	uint64_t values[CAT_BLOCK_VALUES];
};

void cat_column_writer_init(struct cat_column_writer *w, struct cat_stream *runs,
			    struct cat_stream *blocks, struct cat_stream *data);

/* Add @nr times the same value. -EOVERFLOW when the sum of all values reaches 2^64 - 1. */
int cat_column_writer_add_many(struct cat_column_writer *w, uint64_t value, uint64_t nr,
			       struct shoal_err *err) MUST_USE;

/*
 * Append a whole column of another catalog, with @nr values whose sum is @sum and none above
 * @largest.
 */
int cat_column_writer_append(struct cat_column_writer *w, const struct cat_column *c, uint64_t nr,
			     uint64_t sum, uint64_t largest, struct shoal_err *err) MUST_USE;

/* Append @nr values of another catalog's column, from file @from on: whole blocks as they are. */
int cat_column_writer_append_range(struct cat_column_writer *w, const struct cat_column *c,
				   uint64_t from, uint64_t nr, struct shoal_err *err) MUST_USE;

/* What follows is written as in a new column. */
int cat_column_writer_cut(struct cat_column_writer *w, struct shoal_err *err) MUST_USE;

int cat_column_writer_finish(struct cat_column_writer *w, struct shoal_err *err) MUST_USE;

#endif
