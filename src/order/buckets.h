/*
 * buckets.h - batches of samples of similar length, as arithmetic on a sorted list.
 *
 * Samples stand in the order of their lengths, at places. A bucket is a stretch of places; each
 * epoch permutes the samples of a bucket among themselves and cuts them into batches, all of one
 * number in a bucket. The batches of all buckets are numbered from the shortest on, and a
 * shoal_order over these numbers says which batch comes when, to whom. So any batch of any epoch
 * is found alone, in microseconds.
 */
#ifndef SHOAL_ORDER_BUCKETS_H
#define SHOAL_ORDER_BUCKETS_H

#include "base/err.h"

/* Where lengths come from. @self is lent, and may be read by many threads. */
struct bucket_source {
	const void *self;
	uint64_t nr; /* places */
	/* The samples at @nr places; the length at one, which never falls from place to place. */
	int (*samples)(const void *self, uint64_t place, uint64_t nr, uint64_t *ids);
	int (*length)(const void *self, uint64_t place, uint64_t *ret_length);
};

struct buckets;

/* The spec's defaults are filled in. Errors of the source pass through, with @err untouched. */
int buckets_new(const struct bucket_source *source, struct shoal_batch_spec *spec,
		struct buckets **ret_buckets, struct shoal_err *err) SHOAL_MUST_USE;
struct buckets *buckets_free(struct buckets *b);

uint64_t buckets_nr_batches(const struct buckets *b);

/* The samples of the largest batch. */
uint64_t buckets_largest(const struct buckets *b);

/* The samples of batch number @batch in @epoch into @ids, with room for the largest. Returns how
 * many. */
int64_t buckets_batch(const struct buckets *b, uint64_t epoch, uint64_t batch,
		      uint64_t *ids) SHOAL_MUST_USE;

#endif
