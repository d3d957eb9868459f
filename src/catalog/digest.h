/*
 * digest.h - the digest of a catalog's content: docs/format/catalog.md section 6.
 *
 * A polynomial over the hashes of the entries, so that the digests of parts can be combined.
 */
#ifndef SHOAL_CATALOG_DIGEST_H
#define SHOAL_CATALOG_DIGEST_H

#include "base/base.h"
#include "shoal.h"

struct cat_digest {
	uint64_t lane[2];
	uint64_t nr_files;
};

/*
 * Returns whether the catalog is cut before this name: what is written of the names from one cut to
 * the next does not depend on what is before or after them, so they can be written by different
 * threads, and the file does not depend on how many these are. About one name in a million is such,
 * chosen by its hash.
 */
bool cat_digest_add(struct cat_digest *d, const void *name, size_t len, uint64_t size,
		    uint64_t samples);

/* Digests the names given to a writer, on a thread other than the writer's. */
struct cat_digester {
	struct cat_digest digest;
	bool sizes;                /* if false, sizes count as unknown */
	uint64_t samples_per_file; /* 0: use each file's own number */
};

static inline bool cat_digester_add(struct cat_digester *d, const void *name, size_t len,
				    uint64_t size, uint64_t samples)
{
	return cat_digest_add(&d->digest, name, len, d->sizes ? size : SHOAL_SIZE_UNKNOWN,
			      d->samples_per_file ? d->samples_per_file : samples);
}

/* Append the digest of @next's entries: @d becomes the digest of both sequences. */
void cat_digest_append(struct cat_digest *d, const struct cat_digest *next);

/* What happens while a grid is digested, which needs each of its names. */
struct cat_grid_watch {
	const int *stop; /* it ends with -ECANCELED once this is not 0; may be NULL */
	/* Called on the caller's thread with the names digested so far, earlier ones included; or
	 * NULL. */
	void (*progress)(void *self, uint64_t nr_names);
	void *self;
};

/* Append the digest of all names of a grid, of which @first is the first: all files have this size
 * and number of samples. */
struct cat_grid;
int cat_digest_grid(struct cat_digest *d, const struct cat_grid *g, const char *first, size_t len,
		    uint64_t size, uint64_t samples, const struct cat_grid_watch *watch,
		    struct shoal_err *err) MUST_USE;

/* Low half, high half. */
void cat_digest_final(const struct cat_digest *d, uint64_t ret_digest[2]);

/* 32 hexadecimal digits and a NUL. */
void cat_digest_print(const uint64_t digest[2], char ret_text[33]);

#endif
