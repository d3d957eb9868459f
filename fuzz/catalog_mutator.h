/*
 * catalog_mutator.h - mutate one section of a catalog, and mend what then does not fit: the section
 * table, the offsets, the file length and all checksums. So that the mutated bytes are read, and
 * that a section may grow or shrink. Included by one target each, before its entry point.
 */
#ifndef SHOAL_FUZZ_CATALOG_MUTATOR_H
#define SHOAL_FUZZ_CATALOG_MUTATOR_H

#include <stdint.h>
#include <string.h>

#include <xxhash.h>

#include "base/le.h"

#define MUTATE_HEADER 256u
#define MUTATE_ENTRY  24u
#define MUTATE_PAGE   16384u
#define MUTATE_MAX    64u /* sections: a catalog has about 30 */

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

struct mutate_section {
	uint64_t off, len;
};

/* The sections of @data, whose number is returned; 0 if it is not laid out as a catalog. */
static size_t mutate_sections(const uint8_t *data, size_t size, struct mutate_section *ret_sections)
{
	uint64_t nr, at;

	if (size < MUTATE_HEADER || le64_load(data + 24) != size)
		return 0;
	nr = le32_load(data + 96);
	at = MUTATE_HEADER + nr * MUTATE_ENTRY;
	if (nr == 0 || nr > MUTATE_MAX || at > size)
		return 0;
	for (uint64_t i = 0; i < nr; i++) {
		const uint8_t *entry = data + MUTATE_HEADER + i * MUTATE_ENTRY;
		uint64_t off = le64_load(entry + 8), len = le64_load(entry + 16);

		if (off != at || len > size - at)
			return 0;
		ret_sections[i] = (struct mutate_section){ off, len };
		at += len;
	}
	return nr;
}

/* Write page sums behind the sections, and all other checksums. Returns the new length, or 0 if
 * there is no room. */
static size_t mutate_mend(uint8_t *data, size_t max_size, const struct mutate_section *sections,
			  size_t nr)
{
	uint64_t sums = sections[nr - 1].off + sections[nr - 1].len, at = sums;

	for (size_t i = 0; i < nr; i++) {
		for (uint64_t page = 0; page < sections[i].len; page += MUTATE_PAGE) {
			uint64_t left = sections[i].len - page;

			if (at + 8 > max_size)
				return 0;
			le64_store(data + at, XXH3_64bits(data + sections[i].off + page,
							  left < MUTATE_PAGE ? left : MUTATE_PAGE));
			at += 8;
		}
	}
	le64_store(data + 24, at);
	le64_store(data + 112, sums);
	le64_store(data + 120, XXH3_64bits(data + sums, at - sums));
	le64_store(data + 128, XXH3_64bits(data + MUTATE_HEADER, nr * MUTATE_ENTRY));
	le64_store(data + 248, XXH3_64bits(data, 248));
	return at;
}

/* Returns the length of a catalog of which one section was mutated, or the header if @seed picks
 * that; 0 if @data is no catalog or the result is too long. */
static size_t mutate_catalog(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	struct mutate_section sections[MUTATE_MAX];
	size_t nr = mutate_sections(data, size, sections), pick, old, now, end;

	if (nr == 0)
		return 0;
	end = sections[nr - 1].off + sections[nr - 1].len; /* page sums are made anew */
	pick = seed % (nr + 1);
	if (pick == nr) { /* counts and the digest; not what mends itself */
		LLVMFuzzerMutate(data + 32, 64, 64);
		return mutate_mend(data, max_size, sections, nr);
	}
	old = sections[pick].len;
	if (max_size <= end)
		return 0;
	memmove(data + max_size - (end - sections[pick].off - old), data + sections[pick].off + old,
		end - sections[pick].off - old);
	now = LLVMFuzzerMutate(data + sections[pick].off, old, old + (max_size - end));
	memmove(data + sections[pick].off + now, data + max_size - (end - sections[pick].off - old),
		end - sections[pick].off - old);
	sections[pick].len = now;
	for (size_t i = 0; i < nr; i++) {
		uint8_t *entry = data + MUTATE_HEADER + i * MUTATE_ENTRY;

		if (i > pick)
			sections[i].off += now - old;
		le64_store(entry + 8, sections[i].off);
		le64_store(entry + 16, sections[i].len);
	}
	return mutate_mend(data, max_size, sections, nr);
}

#endif
