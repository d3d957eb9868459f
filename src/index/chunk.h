/*
 * chunk.h - a stretch of memory that entries are gathered in and sorted from.
 *
 * Names with their numbers fill it from the front, references to them from the back. Sorted they
 * are packed one after the other somewhere else, without references, so that a chunk can be filled
 * again at once: a page that is touched for the first time costs as much as sorting 50 names.
 */
#ifndef SHOAL_INDEX_CHUNK_H
#define SHOAL_INDEX_CHUNK_H

#include "index/radix.h"
#include "index/sort.h"

struct index_chunk {
	uint8_t *bytes; /* lent */
	size_t cap;
	size_t fill;
	size_t nr;
	/* Stretches of names of a directory that rise, as they came: */
	size_t nr_stretches;
	size_t last_stretch, stretch_before; /* where the last two start */
	size_t stretch_dir;                  /* bytes of the last one's directory */
	size_t packed;                       /* bytes that its entries will take */
	bool mixed; /* there were too many, so that they are not looked for any more */
	bool etags; /* its entries have them: as the first that came */
};

/* Less would not do as spare memory of a chunk of short names. */
#define INDEX_CHUNK_MIN 1024u

/* Empty it, with @cap bytes at @bytes. Both are multiples of 16. */
void index_chunk_init(struct index_chunk *c, uint8_t *bytes, size_t cap);

/* False when there is no room. */
bool index_chunk_put(struct index_chunk *c, const struct shoal_entry *e) SHOAL_MUST_USE;

/* Entries in order, one after the other. All lent. */
struct index_pack {
	const uint8_t *bytes;
	size_t len;
	uint32_t shared; /* bytes with which all names start */
	bool etags;      /* its entries have them */
};

/*
 * Sort all into @to, which has room for `packed` bytes. Equal names stay in the order they came in.
 * @spare has `cap` bytes. The chunk is to be emptied then.
 */
struct index_pack index_chunk_sort(struct index_chunk *c, uint8_t *spare,
				   uint8_t *to) SHOAL_MUST_USE;

/* References, the last one first. */
static inline struct index_ref *index_chunk_refs(const struct index_chunk *c)
{
	return (struct index_ref *)(void *)(c->bytes + c->cap) - c->nr;
}

/* The name of a packed entry at @p, which is not the end. */
static inline const uint8_t *index_pack_name(const uint8_t *p, size_t *ret_len)
{
	size_t len = *p++;

	if (len >= 0x80)
		len = (len & 0x7f) | (size_t)*p++ << 7;
	*ret_len = len;
	return p;
}

/* What follows that name, into all of @ret_entry but the name. Returns where the next one is. */
const uint8_t *index_pack_tail(const struct index_pack *pack, const uint8_t *p,
			       struct shoal_entry *ret_entry);

#endif
