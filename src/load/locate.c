#include "load/locate.h"

#include <errno.h>
#include <string.h>

int load_locate(const struct shoal_catalog *cat, uint64_t sample, char *name,
		struct load_stretch *ret_stretch)
{
	uint64_t file = 0, index = 0, first, count = 1, size = SHOAL_SIZE_UNKNOWN;
	struct load_stretch s = { 0 };
	int rc = shoal_catalog_locate(cat, sample, &file, &index);

	if (rc == 0)
		rc = shoal_catalog_samples(cat, file, &first, &count);
	if (rc == 0)
		rc = shoal_catalog_name(cat, file, name);
	if (rc > 0 && memchr(name, 0, (size_t)rc)) /* a store would read another file */
		return -EILSEQ;
	if (rc >= 0)
		rc = shoal_catalog_size(cat, file, &size);
	if (rc < 0)
		return rc;
	s.file = file;
	s.len = size;
	if (count > 1 &&
	    size != SHOAL_SIZE_UNKNOWN) { /* equal records; the last one includes the remainder */
		s.off = size / count * index;
		s.len = index + 1 < count ? size / count : size - s.off;
		s.more = index + 1 < count;
	}
	*ret_stretch = s;
	return 0;
}
