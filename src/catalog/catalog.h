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
	char root[CAT_ROOT_MAX + 1];
};

#endif
