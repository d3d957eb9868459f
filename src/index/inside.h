/*
 * inside.h - find the samples inside files: a pass over the names of a sealed catalog, which writes
 * another one with the extents of all samples.
 *
 * Several threads open files and read their indexes (a footer, headers of members); the caller's
 * thread writes what they find, in the order of names. Each file is opened once. Memory is a window
 * of files per thread, and the layouts of the files in it.
 */
#ifndef SHOAL_INDEX_INSIDE_H
#define SHOAL_INDEX_INSIDE_H

#include "catalog/writer.h"
#include "index/known.h"
#include "index/parts.h"
#include "shoal.h"
#include "store/store.h"

struct index_inside {
	const struct shoal_index_options *options; /* lent, like the rest */
	struct store *store;
	unsigned nr_threads;
	unsigned nr_cores; /* start as many threads first, and all if these wait; 0: all at once */
	const char *tmp_dir; /* for what is found in files of many samples */
	bool regular; /* names are of regular files: a size that is unknown is found by opening */
	bool verify;  /* read contents that have checksums, and compare them with these */
	bool keep_going; /* leave out files that are damaged or cannot be read */
	const struct index_known
		*known; /* what earlier catalogs know, or NULL. If set, a file whose size has
			   changed since it was listed is read as it is now */
	struct index_parts *parts; /* where to save what is found meanwhile, or NULL */
};

/* Whether @kind is one that shoal_index_options.samples may have. -EINVAL with a message. */
int index_inside_check(const char *kind, struct shoal_err *err) MUST_USE;

/* Add all files of @names to @to, a writer with extents. Adds to the result's counts. */
int index_inside_run(const struct index_inside *in, const struct shoal_catalog *names,
		     struct shoal_writer *to, struct shoal_index_result *result,
		     struct shoal_err *err) MUST_USE;

#endif
