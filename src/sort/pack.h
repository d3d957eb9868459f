/*
 * pack.h - the container of names: a packer collects entries in any order, a pack holds them
 * sorted.
 *
 * In a packer, names and payloads grow from the front of its memory, and references to them from
 * the back. Sorting packs the entries one after another elsewhere, without references, so that the
 * packer can be refilled at once: touching a new page costs as much as sorting 50 names. A packer
 * belongs to one thread at a time; a pack does not change any more.
 */
#ifndef SHOAL_SORT_PACK_H
#define SHOAL_SORT_PACK_H

#include <string.h>

#include "base/span.h"
#include "sort/radix.h"

/* A name and its payload. Both are lent. */
struct sort_entry {
	const uint8_t *name; /* 1 to SHOAL_NAME_MAX bytes */
	size_t len;
	const uint8_t *payload; /* not interpreted by the sorter */
	size_t payload_len;     /* at most SORT_PAYLOAD_MAX */
};

/* A range of names, from @from up to and without @to. No bytes of @from: from the first name on; no
 * bytes of @to: up to the last. Lent. */
struct sort_range {
	const uint8_t *from, *to;
	size_t from_len, to_len;
};

#define SORT_PAYLOAD_MAX 127u /* its length takes one byte */

/* Copy a payload, without a call for most: the end of the copy. */
static inline uint8_t *sort_payload_copy(uint8_t *to, const uint8_t *from, size_t len)
{
	if (len == 0) /* names only */
		return to;
	if (UNLIKELY(len > 7)) {
		memcpy(to, from, len);
		return to + len;
	}
	if (len & 4)
		memcpy(to, from, 4);
	to += len & 4;
	from += len & 4;
	if (len & 2)
		memcpy(to, from, 2);
	to += len & 2;
	from += len & 2;
	if (len & 1)
		*to = *from;
	return to + (len & 1);
}

struct packer {
	uint8_t *bytes; /* lent */
	size_t cap;
	size_t fill;
	size_t nr;
	/* Stretches of rising names in a directory, as they were added: */
	size_t nr_stretches;
	size_t last_stretch, stretch_before; /* where the last two start */
	size_t stretch_dir;                  /* length of the last one's directory */
	size_t packed;                       /* bytes that its entries will take */
	bool mixed; /* there were too many, or a name twice in one: they are no longer tracked */
};

/* Less would not be enough as spare memory for a packer of short names. */
#define PACKER_MIN 1024u

/* Empty it, with @cap bytes at @bytes. Both are multiples of 16. */
void packer_init(struct packer *p, uint8_t *bytes, size_t cap);

/* Put up to @nr entries. Returns how many were put: fewer if there is no room. */
size_t packer_put(struct packer *p, const struct sort_entry *entries, size_t nr) MUST_USE;

/* The same for entries that belong together, such as all of a directory: sort them while they are
 * in the cache. @spare has room for @nr references. */
size_t packer_put_group(struct packer *p, const struct sort_entry *entries, size_t nr,
			struct sort_ref *spare) MUST_USE;

/* A pack has a mark per this many entries, so that it can be searched. */
#define PACK_MARK 64u

/* Sorted entries, one after another. All lent. */
struct pack {
	const uint8_t *bytes;
	size_t len;
	const uint32_t *mark; /* where entries PACK_MARK, 2 * PACK_MARK, ... start */
	const uint8_t *last;  /* the last entry */
	size_t nr;
	uint32_t shared;   /* length of the common prefix of all names */
	uint64_t repeated; /* entries that were dropped, because a later one has the same name */
};

/* The most bytes that packer_sort() writes. */
static inline size_t packer_packed(const struct packer *p)
{
	return p->packed + p->nr / PACK_MARK * sizeof(uint32_t) + sizeof(uint32_t) - 1;
}

/*
 * Sort all entries into @to, which has room for packer_packed() bytes. Of equal names the one
 * added last is kept. @spare has `cap` bytes, or room for `nr` references. The caller then
 * empties the packer.
 */
struct pack packer_sort(struct packer *p, uint8_t *spare, uint8_t *to) MUST_USE;

/* The references, last added first. */
static inline struct sort_ref *packer_refs(const struct packer *p)
{
	return (struct sort_ref *)(void *)(p->bytes + p->cap) - p->nr;
}

/* The name of a packed entry at @p, which is not the end. */
static inline const uint8_t *pack_name(const uint8_t *p, size_t *ret_len)
{
	size_t len = *p++;

	if (len >= 0x80)
		len = (len & 0x7f) | (size_t)*p++ << 7;
	*ret_len = len;
	return p;
}

/* The entry at @p, which is not the end. Returns where the next one is. */
static inline const uint8_t *pack_entry(const uint8_t *p, struct sort_entry *ret_entry)
{
	ret_entry->name = pack_name(p, &ret_entry->len);
	p = ret_entry->name + ret_entry->len;
	ret_entry->payload_len = *p++;
	ret_entry->payload = p;
	return p + ret_entry->payload_len;
}

/* The most bytes of a packed entry. */
#define PACK_ENTRY_MAX (2 + SHOAL_NAME_MAX + 1 + SORT_PAYLOAD_MAX)

/* Pack one more entry at @to. Returns its end. */
static inline uint8_t *pack_put(uint8_t *to, const struct sort_entry *e)
{
	to = mempcpy(varint_put(to, e->len), e->name, e->len);
	*to++ = (uint8_t)e->payload_len;
	return sort_payload_copy(to, e->payload, e->payload_len);
}

/* Up to @most of the packed entries from *@at to @end, and step over them. Returns how many. */
static inline size_t pack_entries(const uint8_t **at, const uint8_t *end,
				  struct sort_entry *ret_entries, size_t most)
{
	size_t nr = 0;

	while (nr < most && *at < end)
		*at = pack_entry(*at, &ret_entries[nr++]);
	return nr;
}

/* Split a pack by a name: the first entry at or after @from that comes after @name (or equals
 * it, unless @with_equal); the end of the pack if there is none. */
const uint8_t *pack_split(const struct pack *pack, const uint8_t *from, const uint8_t *name,
			  size_t len, bool with_equal);

#endif
