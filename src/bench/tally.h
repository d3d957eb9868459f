/*
 * tally.h - what reading an epoch, or a part of one, took, and the proof of it: over all ranks.
 */
#ifndef SHOAL_BENCH_TALLY_H
#define SHOAL_BENCH_TALLY_H

#include "comm/comm.h"
#include "load/loader.h"

/* What all ranks did together. Nothing but numbers, to be added up. */
struct bench_tally {
	uint64_t samples, errors, bytes_asked, bytes_delivered, bytes_device, cpu_ns, wait_ns;
	uint64_t nr_pages, nr_cached, pool_bytes;
	uint64_t got[4], expected[2], nr_expected; /* of the audit: ids, order; what is due */
	uint64_t nr_dropped, nr_kept;              /* files out of the page cache, or not quite */
	uint64_t latency_ns;                       /* sum of those that bench_tally_batch() saw */
	struct load_histogram latency, open, read; /* of samples; open and read where known */
	struct load_remote remote;                 /* requests of a store that is remote */
};

/* Where a process stands before it reads. */
struct bench_meter {
	uint64_t cpu_ns, device_bytes;
	bool device_told; /* the kernel tells what the devices read */
};

void bench_meter_start(struct bench_meter *m);

/* CPU and device bytes since then, into @t. */
void bench_meter_stop(const struct bench_meter *m, struct bench_tally *t);

/* How long the samples of a batch took, which is not given back yet: for the depth of the queue. */
void bench_tally_batch(struct bench_tally *t, const struct shoal_batch *batch);

/*
 * Collective: add the loader's figures of its epoch, of which this rank of the order took @steps
 * steps, to @t, and then all ranks' tallies.
 */
int bench_tally_add_up(struct bench_tally *t, struct shoal_comm *comm, struct shoal_loader *l,
		       uint64_t steps, struct shoal_err *err) SHOAL_MUST_USE;

/* Every sample that was due was delivered, once. */
bool bench_tally_exactly_once(const struct bench_tally *t);

/* Have the page cache of each node forget the dataset; its ranks share the work. */
int bench_drop_cache(struct bench_tally *t, const struct shoal_comm *comm,
		     const struct shoal_catalog *cat, const char *store, const int *stop,
		     struct shoal_err *err) SHOAL_MUST_USE;

#endif
