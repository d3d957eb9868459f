/*
 * buckets.h - batches of samples of similar length, as arithmetic on a sorted list.
 *
 * The samples are sorted by length; the index in that list is a sample's place. A bucket is a range
 * of places. Each epoch permutes the samples of a bucket among themselves and cuts them into
 * batches, all of the same size within a bucket. The batches of all buckets are numbered from the
 * shortest on. A shoal_order over these numbers decides which batch comes when, and on which rank.
 * So any batch of any epoch is computed on its own, in microseconds.
 */
#ifndef SHOAL_ORDER_BUCKETS_H
#define SHOAL_ORDER_BUCKETS_H

#include "base/err.h"

/* The source of lengths. @self is lent, and may be read by many threads. */
struct bucket_source {
	const void *self;
	uint64_t nr; /* places */
	/* The samples at @nr places; the length at one place. Lengths are in ascending order. */
	int (*samples)(const void *self, uint64_t place, uint64_t nr, uint64_t *ids);
	int (*length)(const void *self, uint64_t place, uint64_t *ret_length);
};

struct buckets;

/* Fills in the spec's defaults. Errors of the source pass through, with @err untouched. */
int buckets_new(const struct bucket_source *source, struct shoal_batch_spec *spec,
		struct buckets **ret_buckets, struct shoal_err *err) MUST_USE;
struct buckets *buckets_free(struct buckets *b);

uint64_t buckets_nr_batches(const struct buckets *b);

/* The number of samples in the largest batch. */
uint64_t buckets_largest(const struct buckets *b);

/*
 * Write the samples of batch number @batch in @epoch to @ids, which has room for the largest.
 * Returns their number.
 */
int64_t buckets_batch(const struct buckets *b, uint64_t epoch, uint64_t batch,
		      uint64_t *ids) MUST_USE;

#endif
