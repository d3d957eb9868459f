/* batch.h - bring entries that were found together into order, while they are in the cache. */
#ifndef SHOAL_INDEX_BATCH_H
#define SHOAL_INDEX_BATCH_H

#include "index/radix.h"
#include "store/store.h"

struct index_batch {
	struct index_ref ref[STORE_FOUND_MAX];
	union {
		struct index_ref spare[STORE_FOUND_MAX];
		struct store_entry sorted[STORE_FOUND_MAX];
	};
};

/*
 * The entries in order, in @b; or @entries themselves where they are in order already, or where it
 * would not help: as many as come at once are part of something larger, which is to be sorted as a
 * whole later.
 */
const struct store_entry *index_batch_sort(struct index_batch *b, const struct store_entry *entries,
					   size_t nr);

#endif
