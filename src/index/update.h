/*
 * update.h - take the contents of unchanged directories from an older catalog.
 *
 * A directory is unchanged if its times are from before the older listing began. Its subdirectories
 * are examined in any case, so all of them must be known: the catalog has only those with files in
 * them, and the directory's number of links shows whether there are others.
 *
 * Files of an unchanged directory that follow each other in the old catalog go into the sorter as
 * one entry: see stretch.h.
 */
#ifndef SHOAL_INDEX_UPDATE_H
#define SHOAL_INDEX_UPDATE_H

#include "index/provenance.h"
#include "store/store.h"

struct index_update {
	struct shoal_catalog *old;
	const char *path;   /* or URI, of it; lent */
	uint64_t started;   /* when it was listed */
	uint64_t samples;   /* samples of each file in the new catalog */
	bool one_by_one;    /* take over each name as if it had been found, not stretches */
	bool knows_insides; /* it has the samples inside files, of the requested kind */
	uint64_t nr_directories,
		nr_names; /* directories and names taken over; atomic while it is used */
};

/* @how to open the old catalog. @listing and @root are the new one's: -EINVAL with a message if the
 * old one was made differently. */
int index_update_open(struct index_update *u, const char *path,
		      const struct shoal_catalog_options *how,
		      const struct index_provenance *listing, const char *root, uint64_t samples,
		      struct shoal_err *err) MUST_USE;
void index_update_release(struct index_update *u);

/* Like the sink's known(): deliver the contents of @dir, if they are known. From any thread. */
int index_update_take(struct index_update *u, struct store *store, struct store_sink *sink,
		      const struct store_dir *dir, struct shoal_err *err) MUST_USE;

#endif
