/*
 * listing.h - what a catalog remembers of the listing that made it: its section LIST.
 *
 * Needed to list the same again: what was asked for, and when it began, so that a directory that
 * has not changed since need not be read again.
 */
#ifndef SHOAL_INDEX_LISTING_H
#define SHOAL_INDEX_LISTING_H

#include "base/err.h"

struct index_listing {
	uint64_t started;       /* nanoseconds since 1970, by the lister's clock */
	uint64_t inode;         /* of the root, 0 when it is not known */
	uint64_t nr_unreadable; /* what was left out because it could not be read */
	uint64_t nr_foreign;    /* directories on other file systems than the root's */
	bool sizes, follow, one_fs;
	bool etags; /* were kept */
	/* Shell patterns. Lent when made, owned when parsed. */
	const char *const *include, *const *exclude;
	size_t nr_include, nr_exclude;
	char *text;            /* of a parsed one: the patterns point into it */
	const char **patterns; /* of a parsed one */
};

/* The section's text, the caller's to free; NULL without memory. */
char *index_listing_text(const struct index_listing *l);

/* -ENODATA when there is none, -EBADMSG when it makes no sense. Release it after success. */
int index_listing_parse(const char *text, size_t len, struct index_listing *ret_listing,
			struct shoal_err *err) SHOAL_MUST_USE;
void index_listing_release(struct index_listing *l);

/* Whether both ask for the same: all but when they began. */
bool index_listing_same(const struct index_listing *a, const struct index_listing *b);

#endif
