/*
 * cached.h - how much of the data to be read is in the page cache already.
 *
 * Some samples are checked just before they are read, with cachestat(2), or with mincore(2) on
 * kernels before 6.5: many of the first ones, later one of a few hundred; of a file with several
 * samples the first, because the kernel may have read the others ahead. If the directory entry of a
 * file is not cached, the file cannot be either, so a check never waits for the disk. Direct reads
 * count as not cached, whatever the cache holds.
 */
#ifndef SHOAL_LOAD_CACHED_H
#define SHOAL_LOAD_CACHED_H

#include "store/store.h"

struct load_cached {
	const struct store_posix *files; /* lent; NULL if there is nothing to check */
	uint32_t until_next, nr_looks;
	bool direct; /* reads are direct */
	uint64_t nr_pages, nr_cached;
	bool supported; /* the kernel reports what is cached */
};

void load_cached_init(struct load_cached *c, struct store *store, bool direct);
void load_cached_clear(struct load_cached *c);
/* @len may be SHOAL_SIZE_UNKNOWN: up to the end of the file. */
void load_cached_look(struct load_cached *c, const char *name, uint64_t off, uint64_t len);

/* How many pages of the open file @fd are cached, in @len bytes from @off (0: up to its end).
 * -EPERM if the kernel reveals this only for files that the user owns or may write. */
int64_t load_cached_pages(int fd, uint64_t off, uint64_t len);

/* The same with mincore(2) alone. */
int64_t load_resident_pages(int fd, uint64_t off, uint64_t len);

#endif
