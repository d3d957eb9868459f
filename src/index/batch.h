/* batch.h - bring entries that were found together into order, while they are in the cache. */
#ifndef SHOAL_INDEX_BATCH_H
#define SHOAL_INDEX_BATCH_H

#include "index/radix.h"
#include "store/store.h"

_Static_assert(STORE_FOUND_MAX <= UINT16_MAX, "a reference has their number in its tag");

struct index_batch {
	struct index_ref ref[STORE_FOUND_MAX];
	union {
		struct index_ref spare[STORE_FOUND_MAX];
		struct store_entry sorted[STORE_FOUND_MAX];
	};
};

/* The entries, STORE_FOUND_MAX at most, in order in @b; or @entries where they are in order
 * already, or do not lie in one buffer in the order they came in. */
const struct store_entry *index_batch_sort(struct index_batch *b, const struct store_entry *entries,
					   size_t nr);

#endif
