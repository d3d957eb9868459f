#include "order/buckets.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "order/perm.h"

#define BUCKETS_MAX 65536u /* limits the table below to 512 KB */
/* Defaults: many batches per bucket, but enough buckets to keep lengths apart. */
#define BATCHES_TO_MIX 32u
#define BATCHES_LEAST  2u
#define BUCKETS_LEAST  16u
#define PERM_BUCKETS   PERM_TAG('b')

struct buckets {
	struct bucket_source source;
	struct shoal_batch_spec spec;
	uint64_t nr_buckets, nr_batches, largest;
	/*
	 * Per bucket, the number of batches in all buckets before it. At most BUCKETS_MAX + 1
	 * entries: with more samples, buckets become larger.
	 */
	uint64_t *before;
	uint32_t *count; /* samples per batch */
};

static int buckets_check_spec(const struct bucket_source *source,
			      const struct shoal_batch_spec *spec, struct shoal_err *err)
{
	if (!source->nr)
		return err_set(err, -EINVAL, "there are no samples to make batches of");
	if (!spec->batch && !spec->max_tokens)
		return err_set(err, -EINVAL,
			       "the batch size is missing: give a number of samples, or "
			       "max_tokens");
	if (spec->batch > UINT32_MAX)
		return err_set(err, -EINVAL, "a batch of %" PRIu64 " samples is too large",
			       spec->batch);
	if (spec->bucket && spec->bucket < spec->batch)
		return err_set(err, -EINVAL,
			       "a bucket of %" PRIu64
			       " sample%s is smaller than a batch of %" PRIu64
			       ": use a larger bucket",
			       spec->bucket, plural(spec->bucket), spec->batch);
	return 0;
}

static uint64_t clamp_count(const struct shoal_batch_spec *spec, uint64_t longest)
{
	uint64_t count = spec->batch;

	if (spec->max_tokens) {
		count = longest ? spec->max_tokens / longest : UINT32_MAX;
		if (spec->batch)
			count = u64_min(count, spec->batch);
	}
	return u64_min(count, UINT32_MAX);
}

/* Samples per bucket: as given, or 2 to 32 batches; whole batches if all batches have one size. */
static int choose_bucket(const struct bucket_source *source, struct shoal_batch_spec *spec)
{
	uint64_t least = u64_divide_up(source->nr, BUCKETS_MAX);

	if (!spec->bucket) {
		uint64_t middle = 0;
		int rc = source->length(source->self, source->nr / 2, &middle);

		if (rc < 0)
			return rc;
		middle = u64_max(clamp_count(spec, middle), 1);
		spec->bucket = u64_min(BATCHES_TO_MIX * middle, source->nr / BUCKETS_LEAST);
		spec->bucket = u64_max(spec->bucket, BATCHES_LEAST * middle);
	}
	/* At most all samples: rounding up below would overflow. */
	spec->bucket = u64_min(u64_max(spec->bucket, least), u64_max(source->nr, spec->batch));
	if (!spec->max_tokens)
		spec->bucket = u64_divide_up(spec->bucket, spec->batch) * spec->batch;
	spec->bucket = u64_min(spec->bucket, u64_max(source->nr, spec->batch));
	return 0;
}

static uint64_t bucket_len(const struct buckets *b, uint64_t bucket)
{
	return u64_min(b->spec.bucket, b->source.nr - bucket * b->spec.bucket);
}

static int buckets_fill(struct buckets *b, struct shoal_err *err)
{
	for (uint64_t i = 0; i < b->nr_buckets; i++) {
		uint64_t len = bucket_len(b, i), longest = 0, count;
		int rc = b->source.length(b->source.self, i * b->spec.bucket + len - 1, &longest);

		if (rc < 0)
			return rc;
		count = u64_min(clamp_count(&b->spec, longest), len);
		if (!count)
			return err_set(err, -EINVAL,
				       "a sample of length %" PRIu64
				       " does not fit into a batch of %" PRIu64
				       " tokens: raise max_tokens, or leave long samples out with "
				       "a keep column",
				       longest, b->spec.max_tokens);
		b->before[i] = b->nr_batches;
		b->count[i] = (uint32_t)count;
		b->nr_batches += u64_divide_up(len, count);
		b->largest = u64_max(b->largest, count);
	}
	return 0;
}

int buckets_new(const struct bucket_source *source, struct shoal_batch_spec *spec,
		struct buckets **ret_buckets, struct shoal_err *err)
{
	struct buckets *b;
	int rc = buckets_check_spec(source, spec, err);

	if (rc == 0)
		rc = choose_bucket(source, spec);
	if (rc < 0)
		return rc;
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, -ENOMEM, "out of memory for batches");
	b->source = *source;
	b->spec = *spec;
	b->nr_buckets = u64_divide_up(source->nr, spec->bucket);
	b->before = calloc(b->nr_buckets, sizeof(*b->before));
	b->count = calloc(b->nr_buckets, sizeof(*b->count));
	rc = b->before && b->count ? buckets_fill(b, err)
				   : err_set(err, -ENOMEM, "out of memory for batches");
	if (rc < 0) {
		buckets_free(b);
		return rc;
	}
	*ret_buckets = b;
	return 0;
}

struct buckets *buckets_free(struct buckets *b)
{
	if (b) {
		free(b->before);
		free(b->count);
	}
	free(b);
	return NULL;
}

uint64_t buckets_nr_batches(const struct buckets *b)
{
	return b->nr_batches;
}

uint64_t buckets_largest(const struct buckets *b)
{
	return b->largest;
}

/* The last bucket that begins at or before @batch. */
static uint64_t bucket_of(const struct buckets *b, uint64_t batch)
{
	uint64_t low = 0, high = b->nr_buckets;

	while (high - low > 1) {
		uint64_t mid = low + (high - low) / 2;

		if (b->before[mid] <= batch)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Samples at scattered places of a bucket: each needs its own look-up. */
static int buckets_look_up(const struct buckets *b, uint64_t start, uint64_t nr, uint64_t *ids)
{
	for (uint64_t i = 0; i < nr; i++) {
		int rc = b->source.samples(b->source.self, start + ids[i], 1, &ids[i]);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int64_t buckets_batch(const struct buckets *b, uint64_t epoch, uint64_t batch, uint64_t *ids)
{
	uint64_t bucket = bucket_of(b, batch), start = bucket * b->spec.bucket;
	uint64_t len = bucket_len(b, bucket),
		 first = (batch - b->before[bucket]) * b->count[bucket];
	uint64_t nr = u64_min(b->count[bucket], len - first);
	struct perm_key key = { .domain = PERM_BUCKETS,
				.seed = b->spec.seed,
				.epoch = b->spec.frozen ? 0 : epoch,
				.stream = bucket };
	struct perm perm;
	int rc;

	if (b->spec.in_order) {
		rc = b->source.samples(b->source.self, start + first, nr, ids);
		return rc < 0 ? rc : (int64_t)nr;
	}
	perm_init(&perm, len, &key);
	perm_range(&perm, first, nr, ids);
	rc = buckets_look_up(b, start, nr, ids);
	return rc < 0 ? rc : (int64_t)nr;
}
