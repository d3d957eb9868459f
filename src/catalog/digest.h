/*
 * digest.h - the digest of a catalog's content: docs/format/catalog.md section 6.
 *
 * A polynomial over hashes of the entries, so that digests of parts combine.
 */
#ifndef SHOAL_CATALOG_DIGEST_H
#define SHOAL_CATALOG_DIGEST_H

#include "base/base.h"
#include "shoal.h"

struct cat_digest {
	uint64_t lane[2];
	uint64_t nr_files;
};

void cat_digest_add(struct cat_digest *d, const void *name, size_t len, uint64_t size,
		    uint64_t samples);

/* Digests what a writer is given, on another thread than the one that gives it. */
struct cat_digester {
	struct cat_digest digest;
	bool sizes;                /* else they count as unknown */
	uint64_t samples_per_file; /* 0: as many as each file says */
};

static inline void cat_digester_add(struct cat_digester *d, const void *name, size_t len,
				    uint64_t size, uint64_t samples)
{
	cat_digest_add(&d->digest, name, len, d->sizes ? size : SHOAL_SIZE_UNKNOWN,
		       d->samples_per_file ? d->samples_per_file : samples);
}

/* @d becomes the digest of its own entries followed by those of @next. */
void cat_digest_append(struct cat_digest *d, const struct cat_digest *next);

/* Low half, high half. */
void cat_digest_final(const struct cat_digest *d, uint64_t ret_digest[2]);

/* 32 digits and a NUL. */
void cat_digest_print(const uint64_t digest[2], char ret_text[33]);

#endif
