#include "index/gathered.h"

#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct store_entry *entries, size_t nr)
{
	size_t bytes = 0;

	for (size_t i = 0; i < nr; i++)
		bytes += entries[i].len;
	return bytes;
}

struct index_gathered *index_gathered_new(void)
{
	struct index_gathered *g = malloc(sizeof(*g));

	if (g)
		g->nr = g->fill = g->most_nr = g->most_fill = 0;
	return g;
}

/* What was never used before is used now: how much. */
static size_t grow(struct index_gathered *g)
{
	size_t grown = 0;

	if (g->nr > g->most_nr) {
		grown = (g->nr - g->most_nr) *
			(sizeof(*g->ref) + sizeof(*g->spare) + sizeof(*g->size));
		g->most_nr = g->nr;
	}
	if (g->fill > g->most_fill) {
		grown += g->fill - g->most_fill;
		g->most_fill = g->fill;
	}
	return grown;
}

bool index_gathered_add(struct index_gathered *g, const struct store_entry *entries, size_t nr,
			size_t *ret_grown)
{
	*ret_grown = 0;
	if (nr > INDEX_GATHERED_MAX - g->nr ||
	    bytes_of(entries, nr) > INDEX_GATHERED_BYTES - g->fill)
		return false;
	for (size_t i = 0; i < nr; i++) {
		const struct store_entry *e = &entries[i];

		g->ref[g->nr] = (struct index_ref){ .off = (uint32_t)g->fill,
						    .len = (uint16_t)e->len,
						    .tag = (uint16_t)g->nr };
		g->size[g->nr++] = e->size;
		memcpy(g->names + g->fill, e->name, e->len);
		g->fill += e->len;
	}
	*ret_grown = grow(g);
	return true;
}

void index_gathered_sort(struct index_gathered *g, uint32_t depth)
{
	index_radix_sort(g->names, g->ref, g->spare, g->nr, depth);
}
