#include "bench/node.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_THREADS_MAX 8u

/* The number of kB behind @key in a file of /proc, as bytes; 0 when it is not there. */
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

uint64_t bench_pss_bytes(void)
{
	return proc_bytes("/proc/self/smaps_rollup", "Pss");
}

uint64_t bench_read_threads(uint64_t nr_mine, uint64_t nr_node, uint64_t node_size,
			    uint64_t nr_here)
{
	uint64_t share = shoal_min(nr_mine / nr_here, nr_node / (node_size * nr_here));

	return shoal_max(1, shoal_min(share, READ_THREADS_MAX));
}

uint64_t bench_nr_cpus_node(void)
{
	long nr = sysconf(_SC_NPROCESSORS_ONLN);

	return nr > 0 ? (uint64_t)nr : 1;
}

uint64_t bench_nr_cpus(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return bench_nr_cpus_node();
	return (uint64_t)CPU_COUNT(&set);
}

/* What a rank tells. */
struct told {
	uint64_t node;
	struct bench_node of;
};

struct nodes {
	struct bench_node *node; /* one a node */
	size_t nr;
};

static int take_node(void *self, int from, uint64_t off, uint64_t total, const void *data,
		     size_t len, struct shoal_err *err)
{
	struct nodes *n = self;
	struct bench_node *node;
	struct told told;

	if (off != 0 || total != sizeof(told) || len != sizeof(told))
		return shoal_fail(err, -EPROTO, "rank %d tells of its node in another way", from);
	memcpy(&told, data, sizeof(told));
	if (told.node >= n->nr)
		return shoal_fail(err, -EPROTO, "rank %d is on a node that is not there", from);
	node = &n->node[told.node];
	memcpy(node->host, told.of.host, sizeof(node->host));
	node->nr_cpus = told.of.nr_cpus;
	node->memory_bytes = told.of.memory_bytes;
	node->catalog_bytes = told.of.catalog_bytes; /* one copy for all */
	node->nr_ranks++;
	node->pss_bytes += told.of.pss_bytes;
	node->pool_bytes += told.of.pool_bytes;
	return 0;
}

int bench_nodes_gather(struct shoal_comm *comm, uint64_t pss_bytes, uint64_t pool_bytes,
		       uint64_t catalog_bytes, struct bench_node **ret_nodes, size_t *ret_nr,
		       struct shoal_err *err)
{
	const struct shoal_comm_place *place = shoal_comm_place(comm);
	struct nodes nodes = { .nr = (size_t)place->nr_nodes };
	struct told told = { .node = (uint64_t)place->node,
			     .of = { .nr_cpus = bench_nr_cpus_node(),
				     .memory_bytes = proc_bytes("/proc/meminfo", "MemTotal"),
				     .pss_bytes = pss_bytes,
				     .pool_bytes = pool_bytes,
				     .catalog_bytes = catalog_bytes } };
	struct shoal_comm_blob blob = { .len = sizeof(told), .data = &told };
	int rc;

	gethostname(told.of.host, sizeof(told.of.host) - 1);
	nodes.node = calloc(nodes.nr, sizeof(*nodes.node));
	if (!nodes.node) {
		rc = shoal_fail(err, -ENOMEM, "out of memory");
		shoal_comm_fail(comm, "out of memory");
		return rc;
	}
	rc = shoal_comm_gather(comm, &blob, 0, 65536, take_node, &nodes, err);
	if (rc < 0 || place->rank != 0) {
		free(nodes.node);
		return rc;
	}
	*ret_nodes = nodes.node;
	*ret_nr = nodes.nr;
	return 0;
}
