#include "load/locate.h"

#include <errno.h>
#include <string.h>

int load_locate(const struct shoal_catalog *cat, uint64_t sample, char *name,
		struct load_stretch *ret_stretch)
{
	uint64_t file = 0, index = 0, size = SHOAL_SIZE_UNKNOWN;
	struct shoal_extent at = { 0 };
	int rc = shoal_catalog_locate(cat, sample, &file, &index);

	if (rc == 0)
		rc = shoal_catalog_extent(cat, file, index, &at);
	if (rc == 0)
		rc = shoal_catalog_name(cat, file, name);
	if (rc > 0 && memchr(name, 0, (size_t)rc)) /* a store would read another file */
		return -EILSEQ;
	if (rc >= 0)
		rc = shoal_catalog_size(cat, file, &size);
	if (rc < 0)
		return rc;
	*ret_stretch =
		(struct load_stretch){ .off = at.off,
				       .len = at.len,
				       .more = size != SHOAL_SIZE_UNKNOWN && at.off + at.len < size,
				       .file = file };
	return 0;
}
