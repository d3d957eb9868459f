#include "load/locate.h"

#include <errno.h>
#include <string.h>

#include "catalog/catalog.h"
#include "catalog/recent.h"

int load_locate(const struct shoal_catalog *cat, struct cat_recent *recent, uint64_t sample,
		char *name, struct load_stretch *ret_stretch)
{
	uint64_t file = 0, index = 0;
	bool more = false;
	struct shoal_extent at = { 0 };
	int rc = shoal_catalog_locate(cat, sample, &file, &index);

	if (rc == 0)
		rc = cat_place(cat, file, index, &at, &more);
	if (rc == 0)
		rc = recent ? cat_recent_name(cat, recent, file, name)
			    : shoal_catalog_name(cat, file, name);
	if (rc > 0 && memchr(name, 0, (size_t)rc)) /* a store would read another file */
		return -EILSEQ;
	if (rc < 0)
		return rc;
	*ret_stretch =
		(struct load_stretch){ .off = at.off, .len = at.len, .more = more, .file = file };
	return 0;
}
