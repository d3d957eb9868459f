/*
 * provenance.h - what a catalog records about the listing that made it: its section LIST.
 *
 * It is needed to repeat the listing: the request, and when it began, so that a directory that has
 * not changed since then need not be read again.
 */
#ifndef SHOAL_INDEX_PROVENANCE_H
#define SHOAL_INDEX_PROVENANCE_H

#include "base/err.h"

struct index_provenance {
	uint64_t started;       /* nanoseconds since 1970, by the lister's clock */
	uint64_t inode;         /* of the root, 0 if it is not known */
	uint64_t nr_unreadable; /* entries left out because they could not be read */
	uint64_t nr_foreign;    /* directories on other file systems than the root's */
	bool sizes, follow, one_fs;
	bool etags;          /* were kept */
	const char *samples; /* the kind of samples that were found inside files; NULL: none */
	/* Shell patterns. Lent when made, owned when parsed. */
	const char *const *include, *const *exclude;
	size_t nr_include, nr_exclude;
	char *text;            /* of a parsed one: the patterns point into it */
	const char **patterns; /* of a parsed one */
};

/* The section's text, which the caller frees; NULL without memory. */
char *index_provenance_text(const struct index_provenance *l);

/* -ENODATA if there is none, -EBADMSG if it is malformed. Release it after success. */
int index_provenance_parse(const char *text, size_t len, struct index_provenance *ret_listing,
			   struct shoal_err *err) MUST_USE;
void index_provenance_release(struct index_provenance *l);

/* Whether both requests are equal, apart from when they began. */
bool index_provenance_same(const struct index_provenance *a, const struct index_provenance *b);

#endif
