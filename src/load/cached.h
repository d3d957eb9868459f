/*
 * cached.h - how much of what is about to be read is in the page cache already.
 *
 * Some samples are looked at, just before they are read, by cachestat(2), or by mincore(2) on
 * kernels before 6.5: many of the first ones, one of a few hundred later on. Where even its
 * directory entry is not cached nothing of a file can be, so looking never waits for the disk. What
 * is read past the cache counts as not cached, whatever lies there.
 */
#ifndef SHOAL_LOAD_CACHED_H
#define SHOAL_LOAD_CACHED_H

#include "store/store.h"

struct load_cached {
	int root_fd; /* lent; -1 where there is nothing to look at */
	uint32_t until_next, nr_looks;
	bool direct; /* read past the cache */
	uint64_t nr_pages, nr_cached;
	bool told; /* the kernel does tell */
};

void load_cached_init(struct load_cached *c, struct shoal_store *store, bool direct);
void load_cached_clear(struct load_cached *c);
/* @len may be SHOAL_SIZE_UNKNOWN: to the end of the file. */
void load_cached_look(struct load_cached *c, const char *name, uint64_t off, uint64_t len);

/*
 * Pages of the open file @fd that are in the cache, in @len bytes from @off on; 0: to its end.
 * -EPERM where the kernel does not tell: only of files that one owns or may write to.
 */
int64_t load_cached_pages(int fd, uint64_t off, uint64_t len);

/* The same by mincore(2) alone. */
int64_t load_resident_pages(int fd, uint64_t off, uint64_t len);

#endif
