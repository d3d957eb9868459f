#include "load/pool.h"

#include <sys/mman.h>

#include "load/engine.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

int load_pool_init(struct load_pool *p, uint64_t size, bool anywhere, uint64_t nr,
		   struct shoal_err *err)
{
	uint64_t slot, len, spare = HUGE_PAGE;
	uint8_t *at;

	*p = (struct load_pool){ 0 };
	slot = size < SIZE_MAX / 4 ? load_cap(anywhere ? LOAD_ALIGN - 1 : 0, size) : 1;
	if (size >= SIZE_MAX / 4 || nr > SIZE_MAX / 4 / slot)
		return shoal_fail(err, -ENOMEM,
				  "%llu samples of %llu bytes are more than fits in memory: lower "
				  "the batch, the prefetch or the slot",
				  (unsigned long long)nr, (unsigned long long)size);
	len = slot * nr;
	at = mmap(NULL, len + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return shoal_fail(err, -ENOMEM,
				  "no memory for %llu samples of %llu bytes: lower the batch, the "
				  "prefetch or the slot",
				  (unsigned long long)nr, (unsigned long long)size);
	/* Start at a huge page, and give back what is before and behind. */
	p->bytes = at + ((HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE);
	if (p->bytes > at)
		munmap(at, (size_t)(p->bytes - at));
	if (at + spare > p->bytes)
		munmap(p->bytes + len, (size_t)(at + spare - p->bytes));
	p->len = (size_t)len;
	p->slot = (size_t)slot;
	/* Fewer pages to pin and to look up: a third of the cost of a direct read of 300 KB. */
	(void)!madvise(p->bytes, p->len, MADV_HUGEPAGE);
	return 0;
}

void load_pool_release(struct load_pool *p)
{
	if (p->bytes)
		munmap(p->bytes, p->len);
	*p = (struct load_pool){ 0 };
}
