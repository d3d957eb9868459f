/*
 * record.h - what a catalog stores about a file besides its name, as the sorter carries it: a
 * payload.
 *
 * The size plus one, as a varint; the number of samples, as another, unless it is 1; the ETag, if
 * there is one. Empty if only the name is known. Only a payload with an ETag is longer than both
 * numbers.
 */
#ifndef SHOAL_INDEX_RECORD_H
#define SHOAL_INDEX_RECORD_H

#include "base/etag.h"
#include "base/span.h"
#include "catalog/digest.h"
#include "sort/sort.h"

struct index_record {
	uint64_t size; /* or SHOAL_SIZE_UNKNOWN */
	uint64_t samples;
	const struct etag *etag; /* NULL: none. Lent */
};

#define INDEX_RECORD_NUMBERS 20u /* bytes of both numbers at most */
#define INDEX_RECORD_MAX     (INDEX_RECORD_NUMBERS + sizeof(struct etag))
_Static_assert(INDEX_RECORD_MAX <= SORT_PAYLOAD_MAX, "a record is a payload");
_Static_assert(sizeof(struct etag) >= INDEX_RECORD_NUMBERS, "its length tells what is in it");

/* Write it to @to, which has room for INDEX_RECORD_MAX bytes. Returns its length. */
static inline size_t index_record_put(const struct index_record *r, uint8_t *to)
{
	uint8_t *p = to;

	if (r->size == SHOAL_SIZE_UNKNOWN && r->samples == 1 && !r->etag)
		return 0;
	p = varint_put(p, r->size + 1); /* unknown becomes 0 */
	if (r->samples != 1)
		p = varint_put(p, r->samples);
	if (r->etag) {
		memcpy(p, r->etag, sizeof(*r->etag));
		p += sizeof(*r->etag);
	}
	return (size_t)(p - to);
}

/*
 * The record of an entry; the ETag is the entry's. Always inlined: a call would return it through
 * memory for every name.
 */
__attribute__((always_inline)) static inline struct index_record
index_record_of(const struct sort_entry *e)
{
	struct index_record r = { .size = SHOAL_SIZE_UNKNOWN, .samples = 1 };
	struct span s = { .p = e->payload, .end = e->payload + e->payload_len };

	if (e->payload_len == 0)
		return r;
	if (e->payload_len > INDEX_RECORD_NUMBERS) {
		s.end -= sizeof(struct etag);
		r.etag = (const struct etag *)(const void *)s.end;
	}
	r.size = span_varint(&s) - 1;
	if (span_left(&s) > 0)
		r.samples = span_varint(&s);
	return r;
}

/*
 * Instead of a record: this entry stands for @nr files of the catalog that is updated, from file
 * @first on, and has the name of the first. See stretch.h. No record is as long.
 */
struct index_stretch {
	uint64_t first, nr;
};

#define INDEX_STRETCH_LEN (INDEX_RECORD_MAX + 1)
_Static_assert(INDEX_STRETCH_LEN <= SORT_PAYLOAD_MAX, "a stretch is a payload");

static inline bool index_is_stretch(const struct sort_entry *e)
{
	return e->payload_len == INDEX_STRETCH_LEN;
}

static inline size_t index_stretch_put(const struct index_stretch *s, uint8_t *to)
{
	memset(to, 0, INDEX_STRETCH_LEN);
	memcpy(to, s, sizeof(*s));
	return INDEX_STRETCH_LEN;
}

static inline struct index_stretch index_stretch_of(const uint8_t *payload)
{
	struct index_stretch s;

	memcpy(&s, payload, sizeof(s));
	return s;
}

/* For a sort_stage: computes the digest of entries before they are put into a catalog. */
static inline bool index_record_digest(void *digester, const struct sort_entry *e)
{
	struct index_record r = index_record_of(e);

	return cat_digester_add(digester, e->name, e->len, r.size, r.samples);
}

#endif
