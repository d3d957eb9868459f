#include "order/buckets.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "order/perm.h"

#define BUCKETS_MAX 65536u /* so that the table below is 512 KB at most */
/* Where the spec leaves it to us: many batches in a bucket, but buckets enough to keep lengths
 * apart. */
#define BATCHES_TO_MIX 32u
#define BATCHES_LEAST  2u
#define BUCKETS_LEAST  16u
#define PERM_BUCKETS   SHOAL_PERM_TAG('b')

struct buckets {
	struct bucket_source source;
	struct shoal_batch_spec spec;
	uint64_t nr_buckets, nr_batches, largest;
	/*
	 * For each bucket the batches in those before it. At most BUCKETS_MAX + 1: buckets grow
	 * with the samples beyond that.
	 */
	uint64_t *before;
	uint32_t *count; /* samples of a batch */
};

static uint64_t divide_up(uint64_t x, uint64_t by)
{
	return x / by + (x % by != 0);
}

static int check_spec(const struct bucket_source *source, const struct shoal_batch_spec *spec,
		      struct shoal_err *err)
{
	if (!source->nr)
		return shoal_fail(err, -EINVAL, "no samples to make batches of");
	if (!spec->batch && !spec->max_tokens)
		return shoal_fail(err, -EINVAL,
				  "a batch of what size? Give a number of samples, or max_tokens");
	if (spec->batch > UINT32_MAX)
		return shoal_fail(err, -EINVAL, "a batch of %" PRIu64 " samples is too large",
				  spec->batch);
	if (spec->bucket && spec->bucket < spec->batch)
		return shoal_fail(err, -EINVAL,
				  "a bucket of %" PRIu64 " sample%s has not one batch of %" PRIu64
				  ": use a larger bucket",
				  spec->bucket, shoal_plural(spec->bucket), spec->batch);
	return 0;
}

static uint64_t clamp_count(const struct shoal_batch_spec *spec, uint64_t longest)
{
	uint64_t count = spec->batch;

	if (spec->max_tokens) {
		count = longest ? spec->max_tokens / longest : UINT32_MAX;
		if (spec->batch)
			count = shoal_min(count, spec->batch);
	}
	return shoal_min(count, UINT32_MAX);
}

/* Samples in a bucket: asked for, or of 2 to 32 batches; whole batches where all have one size. */
static int choose_bucket(const struct bucket_source *source, struct shoal_batch_spec *spec)
{
	uint64_t least = divide_up(source->nr, BUCKETS_MAX);

	if (!spec->bucket) {
		uint64_t middle = 0;
		int rc = source->length(source->self, source->nr / 2, &middle);

		if (rc < 0)
			return rc;
		middle = shoal_max(clamp_count(spec, middle), 1);
		spec->bucket = shoal_min(BATCHES_TO_MIX * middle, source->nr / BUCKETS_LEAST);
		spec->bucket = shoal_max(spec->bucket, BATCHES_LEAST * middle);
	}
	/* Not past all samples: rounding up below would overflow. */
	spec->bucket =
		shoal_min(shoal_max(spec->bucket, least), shoal_max(source->nr, spec->batch));
	if (!spec->max_tokens)
		spec->bucket = divide_up(spec->bucket, spec->batch) * spec->batch;
	spec->bucket = shoal_min(spec->bucket, shoal_max(source->nr, spec->batch));
	return 0;
}

static uint64_t bucket_len(const struct buckets *b, uint64_t bucket)
{
	return shoal_min(b->spec.bucket, b->source.nr - bucket * b->spec.bucket);
}

static int fill(struct buckets *b, struct shoal_err *err)
{
	for (uint64_t i = 0; i < b->nr_buckets; i++) {
		uint64_t len = bucket_len(b, i), longest = 0, count;
		int rc = b->source.length(b->source.self, i * b->spec.bucket + len - 1, &longest);

		if (rc < 0)
			return rc;
		count = shoal_min(clamp_count(&b->spec, longest), len);
		if (!count)
			return shoal_fail(
				err, -EINVAL,
				"a sample of length %" PRIu64
				" does not fit into a batch of %" PRIu64
				" tokens: raise max_tokens, or leave long samples out with "
				"a keep column",
				longest, b->spec.max_tokens);
		b->before[i] = b->nr_batches;
		b->count[i] = (uint32_t)count;
		b->nr_batches += divide_up(len, count);
		b->largest = shoal_max(b->largest, count);
	}
	return 0;
}

int buckets_new(const struct bucket_source *source, struct shoal_batch_spec *spec,
		struct buckets **ret_buckets, struct shoal_err *err)
{
	struct buckets *b;
	int rc = check_spec(source, spec, err);

	if (rc == 0)
		rc = choose_bucket(source, spec);
	if (rc < 0)
		return rc;
	b = calloc(1, sizeof(*b));
	if (!b)
		return shoal_fail(err, -ENOMEM, "out of memory for batches");
	b->source = *source;
	b->spec = *spec;
	b->nr_buckets = divide_up(source->nr, spec->bucket);
	b->before = calloc(b->nr_buckets, sizeof(*b->before));
	b->count = calloc(b->nr_buckets, sizeof(*b->count));
	rc = b->before && b->count ? fill(b, err)
				   : shoal_fail(err, -ENOMEM, "out of memory for batches");
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

/* The last bucket that begins at @batch or before. */
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

/* Samples at places of a bucket that lie apart: each is a look-up of its own. */
static int look_up(const struct buckets *b, uint64_t start, uint64_t nr, uint64_t *ids)
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
	uint64_t nr = shoal_min(b->count[bucket], len - first);
	struct shoal_perm_key key = { .domain = PERM_BUCKETS,
				      .seed = b->spec.seed,
				      .epoch = b->spec.frozen ? 0 : epoch,
				      .stream = bucket };
	struct shoal_perm perm;
	int rc;

	if (b->spec.in_order) {
		rc = b->source.samples(b->source.self, start + first, nr, ids);
		return rc < 0 ? rc : (int64_t)nr;
	}
	shoal_perm_init(&perm, len, &key);
	shoal_perm_range(&perm, first, nr, ids);
	rc = look_up(b, start, nr, ids);
	return rc < 0 ? rc : (int64_t)nr;
}
