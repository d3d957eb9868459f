#include "load/tally.h"

#include <inttypes.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include "load/audit.h"
#include "store/uri.h"

#define PAGE 4096.0

static uint64_t cpu_ns(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000u;
}

/* Bytes that devices read for this process; false if the kernel does not report it. */
static bool device_bytes(uint64_t *ret_bytes)
{
	char line[128];
	bool found = false;
	FILE *f = fopen("/proc/self/io", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "read_bytes: %" SCNu64, ret_bytes) == 1)
			found = true;
	if (f)
		fclose(f);
	return found;
}

void load_meter_start(struct load_meter *m)
{
	*m = (struct load_meter){ .cpu_ns = cpu_ns() };
	m->device_told = device_bytes(&m->device_bytes);
}

void load_meter_stop(const struct load_meter *m, struct load_tally *t)
{
	uint64_t bytes;

	t->cpu_ns = cpu_ns() - m->cpu_ns;
	if (m->device_told && device_bytes(&bytes))
		t->bytes_device = bytes - m->device_bytes;
}

bool load_device_known(const char *place)
{
	/* Not ZFS, Lustre or FUSE: their own threads or servers read. */
	static const uint64_t charged[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
					    F2FS_SUPER_MAGIC, NFS_SUPER_MAGIC, TMPFS_MAGIC };
	const char *path = store_local_path(place);
	struct statfs fs;
	uint64_t bytes;

	if (!path || statfs(path, &fs) < 0 || !device_bytes(&bytes))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(charged); i++)
		if ((uint64_t)(unsigned)fs.f_type == charged[i])
			return true;
	return false;
}

double load_cached_share(const struct load_tally *t, bool device_known, double samples_per_file)
{
	double least = (double)t->samples / samples_per_file * PAGE;

	if (device_known && t->bytes_delivered > 0)
		return fmax(0,
			    1 - (double)t->bytes_device / fmax(least, (double)t->bytes_delivered));
	return t->nr_pages ? (double)t->nr_cached / (double)t->nr_pages : (double)NAN;
}

void load_tally_batch(struct load_tally *t, const struct shoal_batch *batch)
{
	for (size_t i = 0; i < batch->nr; i++) {
		const struct load_request *r = load_request_of(batch, i);

		if (batch->sample[i].error)
			continue;
		t->latency_ns += r->finished - r->started;
	}
}

void load_tally_take(struct load_tally *t, const struct shoal_loader *l)
{
	struct shoal_load_stats s;

	shoal_loader_stats(l, &s);
	t->samples = s.nr_samples;
	t->errors = s.nr_errors;
	t->bytes_asked = s.bytes_asked;
	t->bytes_delivered = s.bytes_delivered;
	t->wait_ns = s.wait_ns;
	t->nr_reads = s.nr_reads;
	t->nr_opens = s.nr_opens;
	t->bytes_read = s.bytes_read;
	t->nr_pages = s.nr_pages;
	t->nr_cached = s.nr_cached;
	t->pool_bytes = s.pool_bytes;
	memcpy(t->got, s.sum_ids, sizeof(s.sum_ids));
	memcpy(t->got + 2, s.sum_order, sizeof(s.sum_order));
	load_latency(l, &t->latency);
	load_latency_parts(l, &t->open, &t->read);
	load_remote(l, &t->remote);
}

int load_tally_add_up(struct load_tally *t, struct comm *comm, struct shoal_loader *l,
		      uint64_t steps, struct shoal_err *err)
{
	struct load_sums expected;
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = load_sums_expect(load_order(l), steps, (uint64_t)comm_place(comm)->rank, &expected,
			      err);
	if (rc < 0) {
		comm_fail(comm, err); /* the other ranks are in the reduction */
		return rc;
	}
	load_tally_take(t, l);
	memcpy(t->expected, expected.ids, sizeof(expected.ids));
	t->nr_expected = expected.nr;
	return comm_reduce(comm, COMM_SUM, (uint64_t *)(void *)t, sizeof(*t) / sizeof(uint64_t),
			   err);
}

bool load_tally_exactly_once(const struct load_tally *t)
{
	return t->errors == 0 && t->samples == t->nr_expected && t->got[0] == t->expected[0] &&
	       t->got[1] == t->expected[1];
}

int load_drop_cache(struct load_tally *t, const struct comm *comm, const struct shoal_catalog *cat,
		    const char *store, const struct shoal_store_config *config, const int *stop,
		    struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	struct shoal_drop_result r;
	int rc = shoal_drop_cache(cat, store, config, (uint64_t)place->node_rank,
				  (uint64_t)place->node_size, stop, &r, err);

	if (rc < 0)
		return rc;
	t->nr_dropped = r.nr_files;
	t->nr_kept = r.nr_kept;
	return 0;
}
