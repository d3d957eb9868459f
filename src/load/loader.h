/* loader.h - the parts of a loader that commands need beyond shoal.h. */
#ifndef SHOAL_LOAD_LOADER_H
#define SHOAL_LOAD_LOADER_H

#include "base/histogram.h"
#include "load/engine.h"
#include "shoal.h"

/*
 * Steps of fewer bytes, of one lane, are read together until there are as many, if the order has
 * their samples one after another. DLIO with TensorFlow reads 256 KiB at a time.
 */
#define LOAD_READ_LEAST (UINT64_C(256) << 10)

/* Whether reads from @store (NULL: the catalog's root) can be conditional on the ETags of @cat.
 * -EINVAL with a message if the catalog has none or the store is not a bucket. */
int load_check_etags(const struct shoal_catalog *cat, const char *store,
		     struct shoal_err *err) MUST_USE;

/*
 * After -EBUSY, when the memory limit has no room beside the batches that are held: let the next
 * batch exceed it. For callers that cannot give back their batches and would otherwise copy
 * them, which would take the same memory.
 */
void load_exceed(struct shoal_loader *l);

/* The order, at the epoch that was begun. Lent. */
const struct shoal_order *load_order(const struct shoal_loader *l);

/* Its options, with the defaults of those that were not given. */
const struct shoal_load_options *load_options(const struct shoal_loader *l);

/* As shoal_loader_stats(), without the latencies, whose percentiles take far longer than the rest:
 * for callers that ask after every step. */
void load_counts(const struct shoal_loader *l, struct shoal_load_stats *ret_stats);

/* The time from request to completion of each sample, or piece, of the epoch. */
void load_latency(const struct shoal_loader *l, struct histogram *ret_latency);

/* Its two parts: until the file was open, if the store opens files; and from then on. */
void load_latency_parts(const struct shoal_loader *l, struct histogram *ret_open,
			struct histogram *ret_read);
/* The epoch's traffic over the network; false if the store is not remote. */
bool load_remote(const struct shoal_loader *l, struct load_remote *ret_remote);

/* How sample @i of a batch was read, and when it was submitted, opened and completed. Lent until
 * the batch is given back. */
const struct load_request *load_request_of(const struct shoal_batch *batch, size_t i);

#endif
