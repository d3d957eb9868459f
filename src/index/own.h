/*
 * own.h - files that Shoal itself wrote beside data: never listed.
 *
 * They are recognised by name (path_is_own()); catalogs and columns by their first bytes, which are
 * read of names that end in .cat, .col or .shoal only; lists of a manifest by the note beside them.
 * A file that cannot be read is taken for data, and reported by whoever reads it.
 */
#ifndef SHOAL_INDEX_OWN_H
#define SHOAL_INDEX_OWN_H

#include "base/path.h"
#include "store/store.h"

/* The slow part of index_is_own(). */
bool index_look_own(struct store *store, const char *name, size_t len);

/* Whether @store has such a file under this name. May be called by any thread. */
static inline bool index_is_own(struct store *store, const char *name, size_t len)
{
	char last = len > 0 ? name[len - 1] : '\0';

	/* Called for every file that is listed, and nearly all names end otherwise. */
	return UNLIKELY(last == 't' || last == 'k' || last == 'l') &&
	       index_look_own(store, name, len);
}

#endif
