#include "index/batch.h"

#include "base/name.h"

static const uint8_t *name_of(const struct store_entry *e)
{
	return (const uint8_t *)e->name;
}

static bool in_order(const struct store_entry *entries, size_t nr)
{
	for (size_t i = 1; i < nr; i++)
		if (shoal_name_compare(entries[i - 1].name, entries[i - 1].len, entries[i].name,
				       entries[i].len) >= 0)
			return false;
	return true;
}

/* References to names that lie in one buffer, in the order they came in; else false. */
static bool refer(struct index_batch *b, const struct store_entry *entries, size_t nr,
		  uint32_t *ret_shared)
{
	const uint8_t *first = name_of(&entries[0]);
	size_t shared = entries[0].len;

	for (size_t i = 0; i < nr; i++) {
		uintptr_t at = (uintptr_t)entries[i].name, least = (uintptr_t)first;

		if (i > 0)
			least = (uintptr_t)entries[i - 1].name + 1;
		if (at < least || at - (uintptr_t)first > UINT32_MAX)
			return false;
		b->ref[i] = (struct index_ref){ .off = (uint32_t)(at - (uintptr_t)first),
						.len = (uint16_t)entries[i].len,
						.tag = (uint16_t)i };
		shared = shoal_name_shared(first, shared, name_of(&entries[i]), entries[i].len);
	}
	*ret_shared = (uint32_t)shared;
	return true;
}

const struct store_entry *index_batch_sort(struct index_batch *b, const struct store_entry *entries,
					   size_t nr)
{
	uint32_t shared;

	if (nr > STORE_FOUND_MAX || in_order(entries, nr) || !refer(b, entries, nr, &shared))
		return entries;
	index_radix_sort(name_of(&entries[0]), b->ref, b->spare, nr, shared);
	for (size_t i = 0; i < nr; i++)
		b->sorted[i] = entries[b->ref[i].tag];
	return b->sorted;
}
