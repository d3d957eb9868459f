/* locate.h - where the bytes of a sample are. */
#ifndef SHOAL_LOAD_LOCATE_H
#define SHOAL_LOAD_LOCATE_H

#include "base/err.h"

struct load_stretch {
	uint64_t off;
	uint64_t len;  /* SHOAL_SIZE_UNKNOWN if the catalog has no sizes: the whole file */
	bool more;     /* the file continues after it: further bytes do not mean growth */
	uint64_t file; /* the file that contains it */
};

struct cat_recent;

/* Write the name of the file that holds @sample to @name, of SHOAL_NAME_MAX + 1 bytes. @recent, of
 * the calling thread, makes that faster; it may be NULL. Errors of the lookups. */
int load_locate(const struct shoal_catalog *cat, struct cat_recent *recent, uint64_t sample,
		char *name, struct load_stretch *ret_stretch) MUST_USE;

#endif
