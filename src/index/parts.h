/*
 * parts.h - what was found inside files, saved beside the catalog while --resume is in effect.
 *
 * Every few seconds, and when a run ends early, the files opened since then are sealed into a small
 * catalog of their own, ".NAME.runs.inside-STARTED-SESSION-RANK-NUMBER". A later run, with any
 * number of ranks, takes the insides of unchanged files from these (known.h).
 */
#ifndef SHOAL_INDEX_PARTS_H
#define SHOAL_INDEX_PARTS_H

#include "index/known.h"

struct index_parts {
	struct shoal_writer_options options; /* lent: for each part */
	const char *output;                  /* lent */
	uint64_t started;                    /* when the listing first began */
	uint64_t session;
	int rank;
	uint64_t nr;       /* parts sealed */
	double next;       /* when to seal, in seconds */
	uint64_t nr_files; /* files in the part that is being written */
	struct shoal_writer *writer;
};

/* A file that was opened. */
struct index_parts_file {
	const char *name;
	size_t len;
	uint64_t size, nr_samples;
	const char *etag;                /* or NULL */
	const struct cat_layout *layout; /* or NULL */
};

/* Add a file, in the order of names; seal the part if it is time. */
int index_parts_add(struct index_parts *p, const struct index_parts_file *file,
		    struct shoal_err *err) MUST_USE;

/* Seal the current part, if it has files. */
int index_parts_flush(struct index_parts *p, struct shoal_err *err) MUST_USE;

/*
 * Open the parts of the listing that began at @started. Damaged ones are left out. -EPERM: one is
 * not this user's alone.
 */
int index_parts_open(const char *output, uint64_t started, struct index_known *known,
		     struct shoal_err *err) MUST_USE;

/* Remove all parts beside @output. */
void index_parts_sweep(const char *output);

#endif
