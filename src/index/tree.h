/* tree.h - shoal_index_tree() of shoal.h, with any number of ranks. */
#ifndef SHOAL_INDEX_TREE_H
#define SHOAL_INDEX_TREE_H

#include "comm/comm.h"
#include "shoal.h"

/*
 * Collective: the ranks share the tree, and rank 0 writes the catalog. The memory limit is that of
 * a node, for all its ranks together. Every rank gets the result of all ranks. If one rank fails,
 * all do.
 */
int index_tree(struct comm *comm, const char *where, const struct shoal_tree_options *tree,
	       const struct shoal_index_options *options, struct shoal_index_result *ret_result,
	       struct shoal_err *err) MUST_USE;

/* Whether the ranks of a node take more memory than allowed, because each needs a minimum. */
bool index_tree_exceeds_memory(const struct comm_place *place,
			       const struct shoal_index_options *options);

#endif
