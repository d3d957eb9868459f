/* node.h - the hosts of a run, and its memory on each. */
#ifndef SHOAL_RUN_NODE_H
#define SHOAL_RUN_NODE_H

#include "comm/comm.h"
#include "run/result.h"

/* The memory of this process as Pss: a page shared by n processes counts as 1/n. 0: unknown. */
uint64_t run_pss_bytes(void);

/*
 * The default number of read threads per accelerator: as in DLIO its share of the node's
 * processors, up to 8. Each of the @node_size processes on the node has @nr_here accelerators.
 *
 * Launchers bind each process to its own processors, or leave it all of the node's. So both limit
 * the number: the processors of this process, shared by its accelerators, and those of the node,
 * shared by all accelerators on it.
 */
uint64_t run_read_threads(uint64_t nr_mine, uint64_t nr_node, uint64_t node_size, uint64_t nr_here);

/* The processors that this process may use, and those that the node has. */
uint64_t run_nr_cpus(void);
uint64_t run_nr_cpus_node(void);

/*
 * Collective: how many cores all ranks together may use, on all nodes; as far as launchers bind
 * them, and control groups limit their CPU time.
 */
int run_count_cores(struct comm *comm, uint64_t *ret_cores, struct shoal_err *err) MUST_USE;

/*
 * Collective: every rank sends its facts. On rank 0 *@ret_nodes, which the caller frees, has one
 * entry per node with the sums over its ranks. The bytes are this rank's.
 */
int run_nodes_gather(struct comm *comm, uint64_t pss_bytes, uint64_t pool_bytes,
		     uint64_t catalog_bytes, struct run_node **ret_nodes, size_t *ret_nr,
		     struct shoal_err *err) MUST_USE;

#endif
