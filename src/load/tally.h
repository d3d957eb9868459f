/* tally.h - the cost of reading an epoch, or a part of one, and its audit: over all ranks. */
#ifndef SHOAL_LOAD_TALLY_H
#define SHOAL_LOAD_TALLY_H

#include "comm/comm.h"
#include "load/loader.h"

/* What all ranks did together. Only numbers, so that they can be added over ranks. */
struct load_tally {
	uint64_t samples, errors, bytes_asked, bytes_delivered, bytes_device, cpu_ns, wait_ns;
	uint64_t nr_reads, nr_opens, bytes_read;
	uint64_t nr_pages, nr_cached, pool_bytes;
	uint64_t got[4], expected[2], nr_expected; /* of the audit: ids, order; expected */
	uint64_t nr_dropped, nr_kept; /* files dropped from the page cache, or not completely */
	uint64_t latency_ns;          /* sum over the batches that load_tally_batch() saw */
	struct histogram latency, open, read; /* of samples; open and read if known */
	struct load_remote remote;            /* requests to a remote store */
};

/* The counters of a process before it reads. */
struct load_meter {
	uint64_t cpu_ns, device_bytes;
	bool device_told; /* the kernel reports the bytes read from devices */
};

void load_meter_start(struct load_meter *m);

/* Store CPU time and device bytes since then in @t. */
void load_meter_stop(const struct load_meter *m, struct load_tally *t);

/*
 * Whether the kernel attributes what it reads from the device for files below @place to the process
 * that reads them, or they are in memory anyway. It does on common file systems.
 */
bool load_device_known(const char *place);

/* The share of the delivered bytes that was in memory before, over all ranks; NAN: unknown.
 * @device_known: from what the devices read; a file of less than a page counts as one. Otherwise
 * from the samples that were looked up in the page cache. */
double load_cached_share(const struct load_tally *t, bool device_known, double samples_per_file);

/* Add the latencies of a batch that is not given back yet, for the queue depth. */
void load_tally_batch(struct load_tally *t, const struct shoal_batch *batch);

/* Store the loader's figures of its epoch so far, of this rank, in @t; not what is expected. */
void load_tally_take(struct load_tally *t, const struct shoal_loader *l);

/* Collective: add the loader's figures of its epoch, of which this rank of the order took @steps
 * steps, to @t, and then add the tallies of all ranks. */
int load_tally_add_up(struct load_tally *t, struct comm *comm, struct shoal_loader *l,
		      uint64_t steps, struct shoal_err *err) MUST_USE;

/* Whether every expected sample was delivered, once. */
bool load_tally_exactly_once(const struct load_tally *t);

/* Drop the dataset from the page cache of each node; its ranks share the work. */
int load_drop_cache(struct load_tally *t, const struct comm *comm, const struct shoal_catalog *cat,
		    const char *store, const struct shoal_store_config *config, const int *stop,
		    struct shoal_err *err) MUST_USE;

#endif
