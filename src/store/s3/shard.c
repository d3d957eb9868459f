/*
 * The K-th of N parts of a bucket, computed by each rank for itself.
 *
 * Samples of the list are taken in a fixed sequence: the first page, then pages further and further
 * on until the end is found, then in the middle of the gap that seems to hold the most keys. The
 * number of keys in a gap is estimated from how densely keys lie on either side of it. From the
 * estimates follow the names that split everything into N parts. Ranks that see the same keys take
 * the same samples and compute the same splits, so the parts are disjoint and complete without
 * communication. If keys are added or removed meanwhile, the splits may differ by some names.
 */
#include <stdlib.h>
#include <string.h>

#include "store/s3/list.h"

#define SAMPLE_KEYS 250u /* keys per sample */
#define SAMPLES_MIN 64u
#define SAMPLES_MAX 512u

/* Consecutive names of the list, and an estimate of what follows them. */
struct shard_sample {
	struct s3_name floor; /* nothing lies between it and the first */
	struct s3_name first, last;
	size_t nr;   /* names in it */
	double gap;  /* estimated keys up to the next sample */
	bool closed; /* nothing lies in the gap */
};

struct shards {
	struct s3_lister lister;
	struct s3_keys keys;
	struct s3_name at;         /* where a sample is requested */
	struct s3_name end;        /* nothing comes after it, if it has a length */
	struct shard_sample found; /* the latest */
	struct shard_sample *sample;
	size_t nr, most;
	struct s3_scale scale;
};

static void shard_copy(struct s3_name *to, const uint8_t *name, size_t len)
{
	to->len = (size_t)u64_min(len, SHOAL_NAME_MAX);
	memcpy(to->bytes, name, to->len);
}

/* Take a sample after s->at into s->found. Returns how many names it has. */
static int shard_take_sample(struct shards *s, struct shoal_err *err)
{
	struct shard_sample *f = &s->found;
	size_t len;
	const uint8_t *name;
	int rc = s3_list_page(&s->lister, &s->at, "", SAMPLE_KEYS, err);

	if (rc < 0)
		return rc;
	f->nr = 0;
	f->closed = !s->lister.page.truncated;
	f->gap = 0;
	shard_copy(&f->floor, s->at.bytes, s->at.len);
	for (size_t i = 0; i < s->lister.page.nr; i++) {
		name = s3_list_name(&s->lister, i, &len);
		if (len == 0) /* the prefix itself: it cannot be a splitter */
			continue;
		s3_keys_learn(&s->keys, name, len);
		if (f->nr++ == 0)
			shard_copy(&f->first, name, len);
		if (i + 1 == s->lister.page.nr)
			shard_copy(&f->last, name, len);
	}
	return (int)f->nr;
}

static void set_scale(struct shards *s, const struct s3_name *lo, const struct s3_name *hi)
{
	s3_scale_init(&s->scale, &s->keys, lo->bytes, lo->len, hi ? hi->bytes : NULL,
		      hi ? hi->len : 0);
}

static uint64_t shard_number(const struct shards *s, const struct s3_name *name)
{
	return s3_scale_at(&s->scale, name->bytes, name->len);
}

/* ---- Samples ---- */

/* Keys per number of the scale, in sample @c. */
static double density(const struct shards *s, const struct shard_sample *c)
{
	uint64_t from = shard_number(s, &c->first), to = shard_number(s, &c->last);

	return (double)c->nr / (double)u64_max(1, to - u64_min(from, to));
}

/* Estimate what lies between sample @i and the next, from the distances of their names. */
static void guess(struct shards *s, size_t i)
{
	struct shard_sample *a = &s->sample[i], *b = a + 1;
	uint64_t from, to;

	a->gap = 0;
	if (i + 1 == s->nr || a->closed)
		return;
	set_scale(s, &a->first, &b->last); /* one on which all of them are */
	from = shard_number(s, &a->last);
	to = shard_number(s, &b->floor);
	a->gap = (double)(to - u64_min(from, to)) * (density(s, a) + density(s, b)) / 2;
}

static void shard_insert(struct shards *s, size_t i)
{
	memmove(&s->sample[i + 1], &s->sample[i], (s->nr - i) * sizeof(*s->sample));
	s->sample[i] = s->found;
	s->nr++;
	if (i > 0)
		guess(s, i - 1);
	guess(s, i);
}

/* Look further and further ahead until nothing is found, then go back to find the last sample. */
static int find_end(struct shards *s, struct shoal_err *err)
{
	for (unsigned i = 0; s->nr < s->most && i < 64; i++) {
		const struct shard_sample *last = &s->sample[s->nr - 1];
		uint64_t from, to;
		int rc;

		if (last->closed)
			break;
		set_scale(s, &last->last, s->end.len ? &s->end : NULL);
		from = shard_number(s, &last->last);
		to = s->end.len ? shard_number(s, &s->end) : s->scale.total;
		if (to < from + 2)
			break;
		s3_cut_name(&s->scale, from + (to - from) / 2, &last->last,
			    s->end.len ? &s->end : NULL, &s->at);
		if (s3_name_compare(&s->at, &last->last) <= 0 ||
		    (s->end.len && s3_name_compare(&s->at, &s->end) >= 0))
			break;
		rc = shard_take_sample(s, err);
		if (rc < 0)
			return rc;
		if (rc == 0)
			s->end = s->at;
		else
			shard_insert(s, s->nr);
	}
	return 0;
}

/* Take a sample in the middle of the gap with the highest estimate. 0: there is none. */
static int halve_largest(struct shards *s, struct shoal_err *err)
{
	size_t at = 0;
	uint64_t from, to;
	struct shard_sample *a, *b;
	int rc;

	for (size_t i = 1; i < s->nr; i++)
		if (s->sample[i].gap > s->sample[at].gap)
			at = i;
	a = &s->sample[at];
	if (a->gap < SAMPLE_KEYS)
		return 0;
	b = a + 1;
	set_scale(s, &a->last, &b->floor);
	from = shard_number(s, &a->last);
	to = shard_number(s, &b->floor);
	if (to >= from + 2)
		s3_cut_name(&s->scale, from + (to - from) / 2, &a->last, &b->floor, &s->at);
	if (to < from + 2 || s3_name_compare(&s->at, &a->last) <= 0 ||
	    s3_name_compare(&s->at, &b->floor) >= 0) {
		a->gap = 0; /* it cannot be cut */
		return 1;
	}
	rc = shard_take_sample(s, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || s3_name_compare(&s->found.first, &b->first) >= 0) {
		shard_copy(&b->floor, s->at.bytes, s->at.len); /* nothing from there on */
		guess(s, at);
		return 1;
	}
	if (s3_name_compare(&s->found.last, &b->first) >= 0) { /* it reaches into the next */
		s->found.last = b->first;
		s->found.closed = true;
	}
	shard_insert(s, at + 1);
	return 1;
}

/* ---- Cuts ---- */

static double count_all(const struct shards *s)
{
	double sum = 0;

	for (size_t i = 0; i < s->nr; i++)
		sum += (double)s->sample[i].nr + s->sample[i].gap;
	return sum;
}

/* The name after @rank keys, by the estimates. */
static void cut_at(struct shards *s, double rank, struct s3_name *ret_cut)
{
	size_t i = 0;
	struct shard_sample *a;
	double part;
	uint64_t from, to;

	while (i + 1 < s->nr && rank > (double)s->sample[i].nr + s->sample[i].gap) {
		rank -= (double)s->sample[i].nr + s->sample[i].gap;
		i++;
	}
	a = &s->sample[i];
	part = a->gap > 0 ? (rank - (double)a->nr) / a->gap : 0;
	shard_copy(ret_cut, a->last.bytes, a->last.len);
	if (part <= 0 && rank < (double)a->nr) { /* among the names that were seen */
		set_scale(s, &a->first, &a->last);
		from = shard_number(s, &a->first);
		to = shard_number(s, &a->last);
		part = rank / (double)a->nr;
		shard_copy(ret_cut, a->first.bytes, a->first.len);
	} else {
		if (i + 1 == s->nr || part <= 0)
			return;
		set_scale(s, &a->last, &a[1].floor);
		from = shard_number(s, &a->last);
		to = shard_number(s, &a[1].floor);
	}
	if (to > from + 1)
		s3_cut_name(&s->scale, from + (uint64_t)((double)(to - from) * part), ret_cut, NULL,
			    &s->at);
	if (to > from + 1 && s3_name_compare(&s->at, ret_cut) > 0)
		shard_copy(ret_cut, s->at.bytes, s->at.len);
}

static int sample_all(struct shards *s, struct shoal_err *err)
{
	int rc = shard_take_sample(s, err);

	if (rc <= 0)
		return rc;
	shard_insert(s, 0);
	rc = find_end(s, err);
	if (rc < 0)
		return rc;
	for (size_t i = s->nr; rc >= 0 && i < s->most && s->nr < s->most; i++) {
		rc = halve_largest(s, err);
		if (rc == 0)
			break;
	}
	return rc < 0 ? rc : 0;
}

/* The unit of part @k of @n, from 0. */
static size_t make_unit(struct shards *s, unsigned k, unsigned n, uint8_t *unit)
{
	struct s3_name lo = { 0 }, hi = { 0 };
	double all = count_all(s);

	/* Splitters must rise whatever the estimates are: otherwise parts would overlap. */
	for (unsigned i = 1; i <= k + 1 && i < n; i++) {
		struct s3_name cut = { .len = 1, .bytes = { 1 } };

		if (s->nr > 0)
			cut_at(s, all * i / n, &cut);
		if (cut.len == 0) /* an empty end would mean no end */
			cut = (struct s3_name){ .len = 1, .bytes = { 1 } };
		lo = hi;
		if (s3_name_compare(&cut, &hi) > 0)
			hi = cut;
	}
	if (k + 1 == n)
		return s3_list_unit(&hi, NULL, unit);
	return s3_list_unit(&lo, &hi, unit);
}

int store_s3_shard(struct store *store, unsigned k, unsigned n, const int *stop, void *unit,
		   size_t *ret_len, struct shoal_err *err)
{
	struct shards *s = calloc(1, sizeof(*s));
	struct store_s3 *s3 = store_s3_of(store);
	int rc = s ? 0 : -ENOMEM;

	if (rc == 0) {
		s->lister.store = s3;
		s->lister.stop = stop;
		s->most = (size_t)u64_min(SAMPLES_MAX, SAMPLES_MIN + 4 * (uint64_t)n);
		s->sample = calloc(s->most + 1, sizeof(*s->sample));
		if (!s->sample)
			rc = -ENOMEM;
	}
	if (rc < 0)
		err_describe(err, "out of memory");
	if (rc == 0)
		rc = s3_pool_take(s3->pool, &s->lister.client, err);
	if (rc == 0) {
		rc = sample_all(s, err);
		s3_pool_give(s3->pool, s->lister.client);
	}
	if (rc == 0)
		*ret_len = make_unit(s, k, n, unit);
	if (s) {
		s3_page_release(&s->lister.page);
		free(s->sample);
	}
	free(s);
	return rc;
}
