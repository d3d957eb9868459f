/*
 * share.h - walk a tree with many ranks: each lists what it has, and who has nothing is given some
 * of what others have not begun.
 */
#ifndef SHOAL_INDEX_SHARE_H
#define SHOAL_INDEX_SHARE_H

#include "comm/comm.h"
#include "index/walk.h"

/* Who is asked while waiting, some times a second. */
struct index_share_owner {
	/* 0 to go on, or an error to end with. */
	int (*tick)(void *self, const struct index_walk_state *state, struct shoal_err *err);
	/* Write a checkpoint if it is time to: 1 when one was written, 0, or an error. NULL where
	 * none is kept. */
	int (*save)(void *self, const struct index_walk_state *state, struct shoal_err *err);
	/* How many gifts came from each rank, counted here for who writes checkpoints; or NULL. */
	uint64_t *got;
	void *self;
};

/* Until all ranks have listed everything. Collective. With one rank there is nothing to share. */
int index_share_walk(struct shoal_comm *comm, struct index_walk *walk,
		     const struct index_share_owner *owner, struct index_walk_state *ret_state,
		     struct shoal_err *err) SHOAL_MUST_USE;

#endif
