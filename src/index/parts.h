/*
 * parts.h - from the names that each rank has listed to one catalog.
 *
 * The ranks agree on names that cut all names into as many ranges as there are ranks, send each
 * other what lies in the other's range, and each writes the catalog of its own. Rank 0 appends the
 * others' to its own without decoding them.
 */
#ifndef SHOAL_INDEX_PARTS_H
#define SHOAL_INDEX_PARTS_H

#include "index/cuts.h"

struct index_parts {
	struct shoal_comm *comm;
	const struct shoal_index_options *options;
	const char *root;
	const char *tmp_dir;
	bool sizes, etags;
	size_t memory; /* for merging and sending */
};

/*
 * Collective. @sorter is used up; @writer is rank 0's, open, and sealed here; the others have none.
 */
int index_parts_seal(const struct index_parts *p, struct shoal_sorter **sorter,
		     const struct index_sample *sample, struct shoal_writer **writer,
		     struct shoal_index_result *result, struct shoal_err *err) SHOAL_MUST_USE;

#endif
