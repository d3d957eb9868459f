/*
 * chunk.h - a stretch of memory that entries are gathered in and sorted in place.
 *
 * Names with their numbers fill it from the front, references to them from the back.
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
	bool mixed; /* there were too many, so that they are not looked for any more */
	bool etags; /* its entries have them: as the first that came */
};

/* Less would not do as spare memory of a chunk of short names. */
#define INDEX_CHUNK_MIN 1024u

/* Empty it, with @cap bytes at @bytes. Both are multiples of 16. */
void index_chunk_init(struct index_chunk *c, uint8_t *bytes, size_t cap);

/* False when there is no room. */
bool index_chunk_put(struct index_chunk *c, const struct shoal_entry *e) SHOAL_MUST_USE;

/*
 * Once, after the last put. Equal names stay in the order they came in. A merge then reads the
 * names from front to back, or long stretches of them, so that they may have moved to @spare, which
 * has `cap` bytes too. Returns what is spare afterwards.
 */
uint8_t *index_chunk_sort(struct index_chunk *c, uint8_t *spare) SHOAL_MUST_USE;

/* References, in order once sorted. */
static inline struct index_ref *index_chunk_refs(const struct index_chunk *c)
{
	return (struct index_ref *)(void *)(c->bytes + c->cap) - c->nr;
}

/* The entry that a reference leads to; the name is lent. */
void index_chunk_entry(const struct index_chunk *c, const struct index_ref *r,
		       struct shoal_entry *ret_entry);

/* How many bytes all names of a sorted chunk start with; it is not empty. */
uint32_t index_chunk_shared(const struct index_chunk *c);

#endif
