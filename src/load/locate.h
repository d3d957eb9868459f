/* locate.h - where the bytes of a sample are. */
#ifndef SHOAL_LOAD_LOCATE_H
#define SHOAL_LOAD_LOCATE_H

#include "base/err.h"

struct load_stretch {
	uint64_t off;
	uint64_t len;  /* SHOAL_SIZE_UNKNOWN where the catalog has no sizes: all of the file */
	bool more;     /* the file goes on behind it: bytes there are no growth */
	uint64_t file; /* in which it is */
};

/* Into @name, of SHOAL_NAME_MAX + 1 bytes, the file that holds @sample. Errors of the lookups. */
int load_locate(const struct shoal_catalog *cat, uint64_t sample, char *name,
		struct load_stretch *ret_stretch) SHOAL_MUST_USE;

#endif
