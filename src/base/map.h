/*
 * map.h - a whole file mapped read-only, that survives the file being cut short under it.
 *
 * Reading a page that is no longer in the file raises SIGBUS. The first map installs a handler
 * which puts a page of zeros there and marks the map, so that the reader gets -ESTALE instead of
 * dying; a SIGBUS outside our maps goes on to the handler that was there before. That handler and
 * its table of maps are the one process-wide state of the library: the signal is process-wide too.
 */
#ifndef SHOAL_BASE_MAP_H
#define SHOAL_BASE_MAP_H

#include <stdatomic.h>

#include "base/err.h"

struct shoal_map_guard;

struct shoal_map {
	const uint8_t *addr;
	size_t len;
	int fd; /* kept open, to ask whether the file is still the same; -1 when closed */
	struct shoal_map_guard *guard;
};

#define SHOAL_MAP_CLOSED ((struct shoal_map){ .fd = -1 })

/* Map the regular file at @path. An empty file is mapped as no bytes. */
int shoal_map_open(const char *path, struct shoal_map *ret_map,
		   struct shoal_err *err) SHOAL_MUST_USE;

/* The same of the file @fd, which becomes the map's, and is closed on failure. */
int shoal_map_open_fd(int fd, struct shoal_map *ret_map, struct shoal_err *err) SHOAL_MUST_USE;

/* Idempotent. */
void shoal_map_close(struct shoal_map *map);

/* Whether a read has met the end of a file that shrank. Cheap: for every lookup. */
bool shoal_map_faulted(const struct shoal_map *map);

/* -ESTALE when the file's length is no longer what it was. One fstat(2). */
int shoal_map_check(const struct shoal_map *map, struct shoal_err *err) SHOAL_MUST_USE;

#endif
