/*
 * sidecar_writer.h - write sidecar columns: shoal.h is the manual, docs/format/column.md specifies
 * the bytes.
 */
#ifndef SHOAL_CATALOG_SIDECAR_WRITER_H
#define SHOAL_CATALOG_SIDECAR_WRITER_H

#include "base/out.h"
#include "base/publish.h"
#include "catalog/sidecar_format.h"

struct shoal_column_writer {
	struct publish pub;
	struct out out;
	enum shoal_column_type type;
	uint64_t first, nr, nr_samples;
	uint64_t digest[2], keep_hash[2];
	uint64_t nr_done, min_key, max_key, nr_ones;
	uint64_t nr_order; /* SIDE_NO_ORDER if there is no order */
	uint8_t bits;      /* SHOAL_BIT: values that do not fill a byte yet */
	char name[SIDE_NAME_MAX + 1];
};

/* As the functions of shoal.h that begin with shoal_column_, but @path is a path only. */
int side_open(const char *path, const char *digest, struct shoal_column **ret_column,
	      struct shoal_err *err) MUST_USE;
int side_create(const char *path, const struct shoal_column_options *options,
		struct shoal_column_writer **ret_writer, struct shoal_err *err) MUST_USE;

/* All values were given: write them out, so that other data can follow. */
int side_writer_flush(struct shoal_column_writer *w, struct shoal_err *err) MUST_USE;

/* Write ranks, sums and header, and publish the file. Frees the writer, even on failure. */
int side_writer_finish(struct shoal_column_writer *w, struct shoal_err *err) MUST_USE;

/* Open a writer with the name, type and catalog of the column @like. */
int side_writer_like(const char *path, const struct side_view *like, uint64_t first, uint64_t nr,
		     struct shoal_column_writer **ret_writer, struct shoal_err *err) MUST_USE;

/* Append all values of @column. */
int side_writer_copy(struct shoal_column_writer *w, const struct shoal_column *column,
		     struct shoal_err *err) MUST_USE;

/* How to observe and stop the sorting of a column. */
struct side_sort_watch {
	const int *stop; /* may be NULL */
	void (*progress)(
		void *self,
		uint64_t nr); /* with the number of samples in order; repeatedly. Or NULL */
	void *self;
};

/* shoal_column_sort(), watched. */
int side_sort(const struct shoal_column *column, const struct shoal_column *keep, const char *path,
	      uint64_t memory, const struct side_sort_watch *watch, struct shoal_err *err) MUST_USE;

/* Write the message for a failed read of @column into @err. Returns @rc. */
int side_explain(const struct shoal_column *column, int rc, struct shoal_err *err);

#endif
