/*
 * own.h - files that Shoal itself wrote beside data: never listed.
 *
 * They are recognised by name (path_is_own()); files of a folder of results by their name and the
 * mark of the folder; catalogs, columns, logs of operations, traces and pages by their first bytes,
 * which are read of names that end as own.c lists only; lists of a manifest by the note beside
 * them. A file that cannot be read is taken for data, and reported by whoever reads it.
 */
#ifndef SHOAL_OPEN_OWN_H
#define SHOAL_OPEN_OWN_H

#include "base/path.h"
#include "store/store.h"

/* The slow part of open_is_own(). */
bool open_look_own(struct store *store, const char *name, size_t len);

/* Whether @store has such a file under this name. May be called by any thread. */
static inline bool open_is_own(struct store *store, const char *name, size_t len)
{
	return UNLIKELY(path_may_be_own(name, len)) && open_look_own(store, name, len);
}

#endif
