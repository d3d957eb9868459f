/* loader.h - what commands need of a loader beyond shoal.h. */
#ifndef SHOAL_LOAD_LOADER_H
#define SHOAL_LOAD_LOADER_H

#include "load/engine.h"
#include "load/histogram.h"
#include "shoal.h"

/*
 * Whether the objects in @store (NULL: the catalog's root) can be asked for by the ETags that @cat
 * keeps. -EINVAL, with words: it keeps none, or that is no bucket.
 */
int load_check_etags(const struct shoal_catalog *cat, const char *store,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* The order it reads in, at the epoch that was begun. Lent. */
const struct shoal_order *load_order(const struct shoal_loader *l);

/* How long each sample of the epoch, or piece, took from being asked for until it was there. */
void load_latency(const struct shoal_loader *l, struct load_histogram *ret_latency);

/* Of that, until the file was open, where the store opens files; and from there on. */
void load_latency_parts(const struct shoal_loader *l, struct load_histogram *ret_open,
			struct load_histogram *ret_read);
/* What of the epoch went over the network; false where the store is not remote. */
bool load_remote(const struct shoal_loader *l, struct load_remote *ret_remote);

/*
 * How sample @i of a batch was read, and when it was submitted, opened and there. Lent until the
 * batch is given back.
 */
const struct load_request *load_request_of(const struct shoal_batch *batch, size_t i);

#endif
