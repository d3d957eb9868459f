/* node.h - the machines that a run was on, and the memory that it took there. */
#ifndef SHOAL_BENCH_NODE_H
#define SHOAL_BENCH_NODE_H

#include "bench/result.h"
#include "comm/comm.h"

/* The memory of this process: Pss, where pages that n processes share count an n-th. 0: not told.
 */
uint64_t bench_pss_bytes(void);

/*
 * Threads that an accelerator reads with when nobody says how many: as in DLIO its share of the
 * node's processors, up to 8. A process of @node_size on the node stands for @nr_here accelerators.
 *
 * Launchers bind each process to processors of its own, or leave them all of the node's. So both
 * bound it: those that this process may run on, shared by its own accelerators, and those of the
 * node, shared by all of them.
 */
uint64_t bench_read_threads(uint64_t nr_mine, uint64_t nr_node, uint64_t node_size,
			    uint64_t nr_here);

/* Processors that this process may run on, and that the node has. */
uint64_t bench_nr_cpus(void);
uint64_t bench_nr_cpus_node(void);

/*
 * Collective: every rank tells of itself; on rank 0 *@ret_nodes, to be freed, has one entry a node
 * with the sums of its ranks. The bytes are this rank's.
 */
int bench_nodes_gather(struct shoal_comm *comm, uint64_t pss_bytes, uint64_t pool_bytes,
		       uint64_t catalog_bytes, struct bench_node **ret_nodes, size_t *ret_nr,
		       struct shoal_err *err) SHOAL_MUST_USE;

#endif
