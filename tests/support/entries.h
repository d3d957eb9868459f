/* entries.h - entries with records, for tests of what carries them. */
#ifndef TEST_ENTRIES_H
#define TEST_ENTRIES_H

#include "index/record.h"

/* An entry whose payload is in @payload, of INDEX_RECORD_MAX bytes. */
static inline struct sort_entry entry_with(const void *name, size_t len, uint64_t size,
					   uint64_t samples, const struct etag *etag,
					   uint8_t *payload)
{
	struct index_record r = { .size = size, .samples = samples, .etag = etag };

	return (struct sort_entry){ .name = name,
				    .len = len,
				    .payload = payload,
				    .payload_len = index_record_put(&r, payload) };
}

static inline uint64_t size_of_entry(const struct sort_entry *e)
{
	return index_record_of(e).size;
}

#endif
