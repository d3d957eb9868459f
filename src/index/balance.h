/* balance.h - walk a tree with many ranks: each lists its own units, and an idle rank is handed
 * units that others have not begun. */
#ifndef SHOAL_INDEX_BALANCE_H
#define SHOAL_INDEX_BALANCE_H

#include "comm/comm.h"
#include "index/walk.h"

/* Called several times per second while waiting. */
struct index_balance_owner {
	/* 0 to continue, or an error to end with. */
	int (*tick)(void *self, const struct index_walk_state *state, struct shoal_err *err);
	/* Write a checkpoint if it is due: 1 if one was written, 0, or an error. NULL: there are
	 * none. */
	int (*save)(void *self, const struct index_walk_state *state, struct shoal_err *err);
	/* Counts the handoffs from each rank, for checkpoints; or NULL. */
	uint64_t *got;
	void *self;
};

/* Returns when all ranks have listed everything. Collective. One rank alone has nothing to
 * balance. */
int index_balance_walk(struct comm *comm, struct index_walk *walk,
		       const struct index_balance_owner *owner, struct index_walk_state *ret_state,
		       struct shoal_err *err) MUST_USE;

#endif
