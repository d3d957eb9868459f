/*
 * cached.h - how much of what is about to be read is in the page cache already.
 *
 * One sample of a few hundred is looked at, just before it is read, by cachestat(2). Where even its
 * directory entry is not cached nothing of it can be, so looking never waits for the disk.
 */
#ifndef SHOAL_LOAD_CACHED_H
#define SHOAL_LOAD_CACHED_H

#include "store/store.h"

struct load_cached {
	int root_fd; /* lent; -1 where there is nothing to look at */
	uint32_t until_next;
	uint64_t nr_pages, nr_cached;
	bool told; /* the kernel does tell */
};

void load_cached_init(struct load_cached *c, struct shoal_store *store);
void load_cached_clear(struct load_cached *c);
void load_cached_look(struct load_cached *c, const char *name, uint64_t off, uint64_t len);

/* Pages of the open file @fd that are in the cache, in @len bytes from @off on; -ENOSYS on old
 * kernels. */
int64_t load_cached_pages(int fd, uint64_t off, uint64_t len);

#endif
