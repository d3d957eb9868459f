/* catalog.h - an open catalog, for the rooms that read its internals; shoal.h is the manual. */
#ifndef SHOAL_CATALOG_CATALOG_H
#define SHOAL_CATALOG_CATALOG_H

#include "base/map.h"
#include "catalog/catalog_format.h"
#include "catalog/segment.h"

struct shoal_catalog {
	struct map map;
	struct cat_view view; /* points into map */
	struct cat_damage damage;
	struct cat_dicts *dicts;
	uint64_t last_sum; /* the file's last eight bytes at the time of opening */
	char *copy; /* path of the node-local copy that this is, which can be replaced if damaged;
		       or NULL */
	char root[CAT_ROOT_MAX + 1];
};

/*
 * Rewrite @err, which reports a damaged catalog, so that it reports a damaged copy, and mark the
 * copy to be replaced.
 */
int cat_explain_copy(const struct shoal_catalog *cat, int rc, struct shoal_err *err);

/*
 * shoal_catalog_extent(), and whether the file continues after the sample: one look-up of the
 * file's size for both. @ret_more may be NULL.
 */
int cat_place(const struct shoal_catalog *cat, uint64_t id, uint64_t index,
	      struct shoal_extent *ret_extent, bool *ret_more) MUST_USE;

/* The file's last eight bytes. */
static inline uint64_t cat_last_sum(const struct cat_view *v)
{
	return le64_load((const uint8_t *)v->header + v->file_len - 8);
}

/*
 * Whether the file shrank after it was opened. Reading a page that is gone faults, and the map
 * notices. The rest of the page with the new end reads as zeros without a fault; then the last
 * eight bytes, which are a page sum, do so as well.
 */
static inline bool cat_is_stale(const struct shoal_catalog *cat)
{
	return map_faulted(&cat->map) || UNLIKELY(cat_last_sum(&cat->view) != cat->last_sum);
}

#endif
