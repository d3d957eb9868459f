#include "run/node.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cores.h"

/* The number of kB after @key in a file of /proc, as bytes; 0 if it is not there. */
static uint64_t proc_bytes(const char *path, const char *key)
{
	uint64_t kb = 0;
	char line[256];
	FILE *f = fopen(path, "r");

	while (f && kb == 0 && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0 && line[strlen(key)] == ':')
			(void)!sscanf(line + strlen(key) + 1, "%" SCNu64, &kb);
	if (f)
		fclose(f);
	return kb * 1024;
}

uint64_t run_pss_bytes(void)
{
	return proc_bytes("/proc/self/smaps_rollup", "Pss");
}

uint64_t run_read_threads(uint64_t nr_mine, uint64_t nr_node, uint64_t node_size, uint64_t nr_here)
{
	uint64_t share = u64_min(nr_mine / nr_here, nr_node / (node_size * nr_here));

	return u64_max(1, u64_min(share, WORKLOAD_READ_THREADS_MAX));
}

uint64_t run_nr_cpus_node(void)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);

	return nr > 0 ? (uint64_t)nr : 1;
}

uint64_t run_nr_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return run_nr_cpus_node();
	return (uint64_t)CPU_COUNT(&set);
}

/*
 * Launchers give each rank cores of its own, or all ranks of a node the same. A control group is
 * usually that of the node's share of the job, so its limit is one for all of them.
 */
static uint64_t node_cores(const struct comm_place *place)
{
	unsigned mine = cores_available(), allowed = cores_allowed();

	if (allowed < mine)
		return allowed;
	return u64_min(run_nr_cpus_node(), (uint64_t)mine * (uint64_t)place->node_size);
}

int run_count_cores(struct comm *comm, uint64_t *ret_cores, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);

	*ret_cores = place->node_rank == 0 ? node_cores(place) : 0;
	return comm_reduce(comm, COMM_SUM, ret_cores, 1, err);
}

/* The facts that a rank sends. */
struct node_facts {
	uint64_t node;
	struct run_node of;
};

struct nodes {
	struct run_node *node; /* one entry per node */
	size_t nr;
};

static int add_node_facts(void *self, int from, uint64_t off, uint64_t total, const void *data,
			  size_t len, struct shoal_err *err)
{
	struct nodes *n = self;
	struct run_node *node;
	struct node_facts node_facts;

	if (off != 0 || total != sizeof(node_facts) || len != sizeof(node_facts))
		return err_set(err, -EPROTO,
			       "rank %d sent a malformed node record (mixed Shoal versions?)",
			       from);
	memcpy(&node_facts, data, sizeof(node_facts));
	if (node_facts.node >= n->nr)
		return err_set(err, -EPROTO, "rank %d is on an unknown node", from);
	node = &n->node[node_facts.node];
	memcpy(node->host, node_facts.of.host, sizeof(node->host));
	node->nr_cpus = node_facts.of.nr_cpus;
	node->memory_bytes = node_facts.of.memory_bytes;
	node->catalog_bytes = node_facts.of.catalog_bytes;
	/* one copy, shared by all */
	node->nr_ranks++;
	node->pss_bytes += node_facts.of.pss_bytes;
	node->pool_bytes += node_facts.of.pool_bytes;
	return 0;
}

int run_nodes_gather(struct comm *comm, uint64_t pss_bytes, uint64_t pool_bytes,
		     uint64_t catalog_bytes, struct run_node **ret_nodes, size_t *ret_nr,
		     struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	struct nodes nodes = { .nr = (size_t)place->nr_nodes };
	struct node_facts node_facts = { .node = (uint64_t)place->node,
					 .of = { .nr_cpus = run_nr_cpus_node(),
						 .memory_bytes =
							 proc_bytes("/proc/meminfo", "MemTotal"),
						 .pss_bytes = pss_bytes,
						 .pool_bytes = pool_bytes,
						 .catalog_bytes = catalog_bytes } };
	struct comm_blob blob = { .len = sizeof(node_facts), .data = &node_facts };
	int rc;

	gethostname(node_facts.of.host, sizeof(node_facts.of.host) - 1);
	nodes.node = calloc(nodes.nr, sizeof(*nodes.node));
	if (!nodes.node) {
		rc = err_set(err, -ENOMEM, "out of memory");
		comm_fail(comm, err);
		return rc;
	}
	rc = comm_gather(comm, &blob, 0, 65536, add_node_facts, &nodes, err);
	if (rc < 0 || place->rank != 0) {
		free(nodes.node);
		return rc;
	}
	*ret_nodes = nodes.node;
	*ret_nr = nodes.nr;
	return 0;
}
