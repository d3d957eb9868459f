/*
 * share.h - walk a tree with many ranks: each lists what it has, and who has nothing is given some
 * of what others have not begun.
 */
#ifndef SHOAL_INDEX_SHARE_H
#define SHOAL_INDEX_SHARE_H

#include "comm/comm.h"
#include "index/walk.h"

/* Called while waiting, some times a second. 0 to go on, or an error to end with. */
typedef int index_tick_fn(void *self, const struct index_walk_state *state, struct shoal_err *err);

/* Until all ranks have listed everything. Collective. With one rank there is nothing to share. */
int index_share_walk(struct shoal_comm *comm, struct index_walk *walk, index_tick_fn *tick,
		     void *self, struct index_walk_state *ret_state,
		     struct shoal_err *err) SHOAL_MUST_USE;

#endif
