/*
 * audit.h - the proof that an epoch delivered what its order says, each sample once.
 *
 * Each delivered sample adds a hash of its id, and one of its id and position, to sums that do not
 * depend on the sequence, so they can be added up over ranks. What the first must come to follows
 * from the set of ids alone, and the second is the digest of the order: two epochs with the same
 * one were in the same order.
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
 * What the sums of ids, and nr, come to when @steps steps of @order are delivered by all ranks:
 * @rank's part of that, to be added up over the order's ranks. A whole epoch is proven from the ids
 * that there are, a part of one from the order's positions. O(1) memory, a nanosecond or four a
 * sample.
 */
int load_sums_expect(const struct shoal_order *order, uint64_t steps, uint64_t rank,
		     struct load_sums *ret_sums, struct shoal_err *err) SHOAL_MUST_USE;

#endif
