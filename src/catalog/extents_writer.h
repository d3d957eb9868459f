/*
 * extents_writer.h - write where samples lie inside files: docs/format/catalog.md section 10.
 */
#ifndef SHOAL_CATALOG_EXTENTS_WRITER_H
#define SHOAL_CATALOG_EXTENTS_WRITER_H

#include "catalog/column_writer.h"
#include "catalog/layout.h"

#define CAT_FORMATS_MAX 32u

/*
 * Add the extents of all @nr samples of file @id to a layout, and finish it: 1. 0 if the file has
 * none. -EBADMSG, -ESTALE, and as cat_layout_add().
 */
int catalog_layout_of(const struct shoal_catalog *cat, uint64_t id, uint64_t nr,
		      struct cat_layout *layout) MUST_USE;

/*
 * One of 4096 earlier layouts, chosen by its hash, is compared with. A layout that is not found
 * there is only stored again.
 */
#define CAT_LAYOUTS_KEPT 4096u

struct cat_extents_writer {
	struct cat_stream *header; /* lent */
	struct cat_column_writer added, shared, gaps, lengths, rows;
	uint64_t longest, nr_uncut;
	bool sparse; /* a column has sparse blocks; known once it is finished */
	struct shoal_format_count format[CAT_FORMATS_MAX];
	unsigned nr_formats;
	struct {
		uint64_t hash[2], first, nr;
	} kept[CAT_LAYOUTS_KEPT];
};

/* @streams: of the sections from XHDR on. */
void cat_extents_writer_init(struct cat_extents_writer *w, struct cat_stream *streams);

/* Add the next file, of @size bytes: its layout, or NULL if it is one sample, or none. */
int cat_extents_writer_add(struct cat_extents_writer *w, const struct cat_layout *layout,
			   uint64_t size, uint64_t nr_samples, struct shoal_err *err) MUST_USE;

/* Count @nr_files files of a format, with @nr_samples samples. */
int cat_extents_writer_count(struct cat_extents_writer *w, const char *format, uint64_t nr_files,
			     uint64_t nr_samples, struct shoal_err *err) MUST_USE;

/* Append the extents of a catalog that has them. */
int cat_extents_writer_append(struct cat_extents_writer *w, const struct shoal_catalog *part,
			      struct shoal_err *err) MUST_USE;

int cat_extents_writer_finish(struct cat_extents_writer *w, struct shoal_err *err) MUST_USE;

#endif
