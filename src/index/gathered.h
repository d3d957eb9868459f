/* gathered.h - entries of a directory that comes in several parts, until it is known to the last.
 */
#ifndef SHOAL_INDEX_GATHERED_H
#define SHOAL_INDEX_GATHERED_H

#include "index/radix.h"
#include "store/store.h"

/* Larger directories are better cut into parts for several threads, and sorted with all others. */
#define INDEX_GATHERED_MAX   16384u
#define INDEX_GATHERED_BYTES (640u << 10)

_Static_assert(INDEX_GATHERED_MAX <= UINT16_MAX + 1, "a reference has their number in its tag");

struct index_gathered {
	size_t nr;
	size_t fill;                              /* bytes of names */
	size_t most_nr, most_fill;                /* that there ever were */
	struct index_ref ref[INDEX_GATHERED_MAX]; /* as they came, or when sorted by name */
	struct index_ref spare[INDEX_GATHERED_MAX];
	uint64_t size[INDEX_GATHERED_MAX]; /* of what a reference's tag says */
	uint8_t names[INDEX_GATHERED_BYTES];
};

/* NULL without memory. Of what it might hold, memory is used only as it fills. */
struct index_gathered *index_gathered_new(void);

/* For another directory. */
static inline void index_gathered_clear(struct index_gathered *g)
{
	g->nr = g->fill = 0;
}

/* All of @entries, or false and none: there is no room for them. In @ret_grown, how much more
 * memory is used now than ever before. */
bool index_gathered_add(struct index_gathered *g, const struct store_entry *entries, size_t nr,
			size_t *ret_grown) SHOAL_MUST_USE;

/* By name, and equal names as they came. The first @depth bytes of all are the same. */
void index_gathered_sort(struct index_gathered *g, uint32_t depth);

#endif
