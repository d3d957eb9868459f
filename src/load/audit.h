/*
 * audit.h - the proof that an epoch delivered exactly the samples of its order, each once.
 *
 * Each delivered sample adds a hash of its id, and one of its id and position, to sums that do not
 * depend on the sequence, so they can be added over ranks. The expected value of the first sum
 * follows from the set of ids alone. The second is the digest of the order: two epochs with equal
 * digests were in the same order.
 */
#ifndef SHOAL_LOAD_AUDIT_H
#define SHOAL_LOAD_AUDIT_H

#include "base/err.h"

struct load_sums {
	uint64_t nr;
	uint64_t ids[2], order[2];
};

void load_sums_add(struct load_sums *s, uint64_t id, uint64_t position);

/*
 * The expected sums of ids, and nr, when all ranks deliver @steps steps of @order: @rank's part,
 * to be added over the order's ranks. A whole epoch is checked against the ids that exist, a
 * part of one against the order's positions. O(1) memory, one to four nanoseconds per sample.
 */
int load_sums_expect(const struct shoal_order *order, uint64_t steps, uint64_t rank,
		     struct load_sums *ret_sums, struct shoal_err *err) MUST_USE;

/* The expected sums of one rank that took @steps steps and the first @more samples of the next one,
 * wherever the other ranks are. */
int load_sums_expect_own(const struct shoal_order *order, uint64_t steps, uint64_t more,
			 uint64_t rank, struct load_sums *ret_sums, struct shoal_err *err) MUST_USE;

#endif
