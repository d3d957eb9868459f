/* node.h - the machines that a run was on, and the memory that it took there. */
#ifndef SHOAL_BENCH_NODE_H
#define SHOAL_BENCH_NODE_H

#include "bench/result.h"
#include "comm/comm.h"

/* The memory of this process: Pss, where pages that n processes share count an n-th. 0: not told.
 */
uint64_t bench_pss_bytes(void);

/* Processors that this process may run on. */
uint64_t bench_nr_cpus(void);

/*
 * Collective: every rank tells of itself; on rank 0 *@ret_nodes, to be freed, has one entry a node
 * with the sums of its ranks. The bytes are this rank's.
 */
int bench_nodes_gather(struct shoal_comm *comm, uint64_t pss_bytes, uint64_t pool_bytes,
		       uint64_t catalog_bytes, struct bench_node **ret_nodes, size_t *ret_nr,
		       struct shoal_err *err) SHOAL_MUST_USE;

#endif
