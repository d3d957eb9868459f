/* compare_inside.h - whether samples still have the extents that a catalog records. */
#ifndef SHOAL_INDEX_COMPARE_INSIDE_H
#define SHOAL_INDEX_COMPARE_INSIDE_H

#include "catalog/writer.h"
#include "shoal.h"
#include "store/store.h"

struct index_compare_inside {
	const struct shoal_catalog *cat; /* lent, like the rest */
	const struct shoal_compare_options *options;
	struct store *store;
	const char *kind;              /* of samples, as the catalog recorded it */
	const char *tmp_dir;           /* for a catalog of the current state */
	unsigned nr_threads, nr_cores; /* see inside.h */
};

/* Compare the files of @same, which seals and frees it. Counts in @result. */
int index_compare_inside(const struct index_compare_inside *in, struct shoal_writer *same,
			 struct shoal_compare_result *result, struct shoal_err *err) MUST_USE;

#endif
