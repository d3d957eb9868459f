/* pool.h - all the memory that samples are read into, taken at once. */
#ifndef SHOAL_LOAD_POOL_H
#define SHOAL_LOAD_POOL_H

#include "base/err.h"

struct load_pool {
	uint8_t *bytes; /* aligned to a huge page where it is as large as one */
	size_t len;
	size_t slot; /* bytes of each */
};

/* @nr slots with room for reads of @size bytes, from any offset when @anywhere. */
int load_pool_init(struct load_pool *p, uint64_t size, bool anywhere, uint64_t nr,
		   struct shoal_err *err) SHOAL_MUST_USE;
void load_pool_release(struct load_pool *p);

static inline uint8_t *load_pool_slot(const struct load_pool *p, size_t i)
{
	return p->bytes + i * p->slot;
}

#endif
