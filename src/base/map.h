/*
 * map.h - a whole file mapped read-only that survives the file being truncated.
 *
 * Reading a page that is no longer in the file raises SIGBUS. The first map installs a handler that
 * maps a page of zeros there and marks the map, so that the reader gets -ESTALE instead of dying; a
 * SIGBUS outside our maps goes to the handler that was installed before. The handler and its table
 * of maps are the library's only process-wide state, because the signal is process-wide.
 */
#ifndef SHOAL_BASE_MAP_H
#define SHOAL_BASE_MAP_H

#include <stdatomic.h>

#include "base/err.h"

struct map_guard;

struct map {
	const uint8_t *addr;
	size_t len;
	int fd; /* kept open to check whether the file is still the same; -1 when closed */
	struct map_guard *guard;
};

#define MAP_CLOSED ((struct map){ .fd = -1 })

/* Map the regular file at @path. An empty file is mapped as no bytes. */
int map_open(const char *path, struct map *ret_map, struct shoal_err *err) MUST_USE;

/* As map_open(), for @fd, which the map now owns. It is closed on failure. */
int map_open_fd(int fd, struct map *ret_map, struct shoal_err *err) MUST_USE;

/* Idempotent. */
void map_close(struct map *map);

/* Whether a read has hit the end of a file that shrank. Cheap enough for every lookup. */
bool map_faulted(const struct map *map);

/* -ESTALE if the file's length has changed. One fstat(2). */
int map_check(const struct map *map, struct shoal_err *err) MUST_USE;

#endif
