/* radix.h - sort references to names that lie in one buffer. */
#ifndef SHOAL_SORT_RADIX_H
#define SHOAL_SORT_RADIX_H

#include "base/base.h"
#include "shoal.h"

_Static_assert(SHOAL_NAME_MAX <= UINT16_MAX, "a reference has a name's length");

struct sort_ref {
	/* Eight bytes of the name at the depth being sorted, big-endian. For the caller's use
	 * before; equal names have equal keys afterwards. */
	uint64_t key;
	uint32_t off; /* of the name in the buffer; also the order in which names were added */
	uint16_t len;
	uint16_t tag; /* for the caller's use */
};

/* Sort bytewise by name, equal names by off. The first @depth bytes are the same in all names,
 * and @spare has room for as many references. */
void sort_radix(const uint8_t *names, struct sort_ref *refs, struct sort_ref *spare, size_t nr,
		uint32_t depth);

#endif
