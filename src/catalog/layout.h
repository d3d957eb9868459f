/*
 * layout.h - all extents of one file, collected before they are written.
 *
 * A layout is made by one thread at a time, any thread. Equal extents in succession take a few
 * bytes together, others 4 to 6 each. What exceeds CAT_LAYOUT_MEMORY goes to a temporary file, so a
 * file may have any number of samples; it stays in memory while no descriptor is free.
 */
#ifndef SHOAL_CATALOG_LAYOUT_H
#define SHOAL_CATALOG_LAYOUT_H

#include "base/buf.h"
#include "shoal.h"

struct XXH3_state_s;

#define CAT_LAYOUT_MEMORY (256u << 10)

/* Equal extents in succession. */
struct cat_layout_run {
	uint64_t nr, gap, len, rows; /* gap: before each of them */
};

struct cat_layout {
	struct buf runs;           /* as varints; those that are not in the file */
	const char *tmp_dir;       /* for the file; lent. NULL: the usual one */
	int fd;                    /* of the file; -1: there is none */
	uint64_t nr_spilled;       /* bytes in it */
	struct XXH3_state_s *hash; /* of the bytes in it */
	uint64_t nr, end, longest;
	struct cat_layout_run last; /* not in the buffer yet; nr is 0 if there is none */
};

#define CAT_LAYOUT_EMPTY                                       \
	{                                                      \
		.runs = { .max = CAT_LAYOUT_MEMORY }, .fd = -1 \
	}

/* Keeps the buffer, and tmp_dir. */
void cat_layout_clear(struct cat_layout *l);
void cat_layout_release(struct cat_layout *l);

/*
 * Add an extent, which starts at or after the end of the last. -ENOMEM, or what a write to the
 * temporary file returned: the first error is returned by all later calls, too.
 */
int cat_layout_add(struct cat_layout *l, const struct shoal_extent *extent) MUST_USE;

/* No more extents follow. Needed before it is read. */
int cat_layout_finish(struct cat_layout *l) MUST_USE;

/* Call @take for each run, in order, until it fails. */
typedef int cat_layout_fn(void *self, const struct cat_layout_run *run);
int cat_layout_each(const struct cat_layout *l, cat_layout_fn *take, void *self) MUST_USE;

/* A hash of the extents: of 128 bits, so different layouts have different ones. */
void cat_layout_hash(const struct cat_layout *l, uint64_t ret_hash[2]);

#endif
