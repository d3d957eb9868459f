/* catalog.h - an open catalog, for the rooms that look inside; shoal.h has the manual. */
#ifndef SHOAL_CATALOG_CATALOG_H
#define SHOAL_CATALOG_CATALOG_H

#include "base/map.h"
#include "catalog/catalog_format.h"
#include "catalog/segment.h"

struct shoal_catalog {
	struct shoal_map map;
	struct cat_view view; /* points into map */
	struct cat_damage damage;
	struct cat_dicts *dicts;
	uint64_t last_sum; /* the file's last eight bytes when it was opened */
	char *copy; /* where it is, when it is a copy that is made anew if need be; or NULL */
	char root[CAT_ROOT_MAX + 1];
};

/* With words in @err about a damaged catalog: make them of a damaged copy, and have it made anew.
 */
int cat_explain_copy(const struct shoal_catalog *cat, int rc, struct shoal_err *err);

/* The file's last eight bytes. */
static inline uint64_t cat_last_sum(const struct cat_view *v)
{
	return shoal_le64_load((const uint8_t *)v->header + v->file_len - 8);
}

/*
 * Whether the file shrank since it was opened. Whole pages that are gone fault and are seen by the
 * map; the rest of the page with the new end reads as zeros without a fault, and so do the last
 * eight bytes then, which are a page sum.
 */
static inline bool cat_is_stale(const struct shoal_catalog *cat)
{
	return shoal_map_faulted(&cat->map) ||
	       SHOAL_UNLIKELY(cat_last_sum(&cat->view) != cat->last_sum);
}

#endif
