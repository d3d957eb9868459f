/*
 * known.h - the insides of files that earlier catalogs know, so that an unchanged file is not
 * opened again.
 *
 * Such a catalog is the one that is updated, or a part that an interrupted run left. A file is
 * unchanged if its size is the same and its times are from before that catalog was begun; an
 * object, if its size and ETag are the same.
 */
#ifndef SHOAL_INDEX_KNOWN_H
#define SHOAL_INDEX_KNOWN_H

#include "base/etag.h"
#include "catalog/extents_writer.h"
#include "shoal.h"

struct index_known_source {
	struct shoal_catalog *cat;
	char *first;      /* its first name; NULL: the catalog is lent, and used last */
	uint64_t started; /* nanoseconds since 1970 */
	bool trusted;     /* an object without an ETag has not changed if its size is the same */
};

/* One catalog to update, and a part per few seconds of each interrupted run: some 300 bytes each,
 * besides the pages of their files. */
struct index_known {
	struct index_known_source *source;
	size_t nr;
};

/* A file as it is now. */
struct index_known_file {
	const char *name;
	size_t len;
	uint64_t size;
	uint64_t changed; /* nanoseconds since 1970; 0: an object */
	bool coarse;      /* that time has whole seconds only */
	struct etag etag;
};

/* Add a catalog. It is owned from now on, together with @first, unless that is NULL. -ENOMEM. */
int index_known_add(struct index_known *k, const struct index_known_source *source) MUST_USE;

/* No more will be added. */
void index_known_sort(struct index_known *k);
void index_known_release(struct index_known *k);

/*
 * 1 if the file is known: its number of samples, and its layout, which is empty for a file that is
 * one sample. 0 otherwise, also if what is known cannot be read. From any thread.
 */
int index_known_find(const struct index_known *k, const struct index_known_file *file,
		     struct cat_layout *layout, uint64_t *ret_nr) MUST_USE;

#endif
