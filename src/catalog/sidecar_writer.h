/* sidecar_writer.h - write columns: shoal.h has the manual, docs/format/column.md the bytes. */
#ifndef SHOAL_CATALOG_SIDECAR_WRITER_H
#define SHOAL_CATALOG_SIDECAR_WRITER_H

#include "base/out.h"
#include "base/publish.h"
#include "catalog/sidecar_format.h"

struct shoal_column_writer {
	struct shoal_publish pub;
	struct shoal_out out;
	enum shoal_column_type type;
	uint64_t first, nr, nr_samples;
	uint64_t digest[2], keep_hash[2];
	uint64_t nr_done, min_key, max_key, nr_ones;
	uint64_t nr_order; /* SIDE_NO_ORDER: none */
	uint8_t bits;      /* SHOAL_BIT: values that do not fill a byte yet */
	char name[SIDE_NAME_MAX + 1];
};

/* All values are there: write them out, so that what follows can be put behind. */
int side_writer_flush(struct shoal_column_writer *w, struct shoal_err *err) SHOAL_MUST_USE;

/* Ranks, sums and header, and give it its name. Frees the writer, also on failure. */
int side_writer_finish(struct shoal_column_writer *w, struct shoal_err *err) SHOAL_MUST_USE;

/* A writer for the column that @like is. */
int side_writer_like(const char *path, const struct side_view *like, uint64_t first, uint64_t nr,
		     struct shoal_column_writer **ret_writer, struct shoal_err *err) SHOAL_MUST_USE;

/* Append all values of @column. */
int side_writer_copy(struct shoal_column_writer *w, const struct shoal_column *column,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* Words for an error of a read of @column. Returns @rc. */
int side_explain(const struct shoal_column *column, int rc, struct shoal_err *err);

#endif
