/*
 * stretch.h - stretches of an old catalog on their way into a new one.
 *
 * Files that follow each other in the old catalog and whose directories have not changed are an
 * entry of the sorter like any other, with the name of the first of them (record.h). Nothing new
 * can lie between them, or one of their directories would have changed. So they are put together
 * again when they come out of the sorter, and copied without decoding their names.
 *
 * If a file system reports a directory twice while it changes, there may be a stretch of it and
 * also its names one by one: the stretch is then split where they belong.
 */
#ifndef SHOAL_INDEX_STRETCH_H
#define SHOAL_INDEX_STRETCH_H

#include "catalog/writer.h"
#include "index/record.h"

/* All lent, but for what is after the line. */
struct index_stretches {
	const struct shoal_catalog *old;
	const char *path; /* of it */
	struct shoal_writer *writer;
	struct cat_digester *digester;
	unsigned nr_threads; /* to digest with; 0: all cores */
	/* ---- */
	struct index_stretch pending; /* not put yet, because it may continue */
	uint64_t nr_put;              /* names that were put */
	size_t last_len;              /* of the last name of what is pending; 0: not decoded yet */
	char last[SHOAL_NAME_MAX + 1];
};

int index_stretches_put(struct index_stretches *s, const struct index_stretch *next,
			struct shoal_err *err) MUST_USE;

/* The name @name is put next: put what comes before it. */
int index_stretches_before(struct index_stretches *s, const void *name, size_t len,
			   struct shoal_err *err) MUST_USE;

/* Put what is pending. */
int index_stretches_end(struct index_stretches *s, struct shoal_err *err) MUST_USE;

#endif
