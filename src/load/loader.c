/*
 * One thread of its own reads ahead: it computes which samples come next, looks up their names,
 * submits reads and reaps them, and hands over batches in order. All memory is taken when it is
 * opened: a ring of batches, each with a slot of the pool and room for a name for every sample.
 */
#include "load/loader.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/queue.h"
#include "load/audit.h"
#include "load/cached.h"
#include "load/engine.h"
#include "load/histogram.h"
#include "load/pool.h"

#define IN_FLIGHT 64u
#define PREFETCH  2u
#define STALL_MS  10000u

/* How long the thread waits for reads before it looks around. */
#define REAP_US 100000
#define REAPED  64u

/* One sample on its way. */
struct slot {
	struct load_request request; /* first: it is what comes back */
	struct ring_batch *batch;
	uint32_t index; /* in the batch */
	uint64_t file;
	char name[SHOAL_NAME_MAX + 1];
};

enum batch_state { FREE, FILLING, READY, HELD };

struct ring_batch {
	struct shoal_batch public; /* first: it is what the caller has */
	enum batch_state state;
	uint32_t nr_submitted, nr_done;
	struct shoal_sample *sample;
	struct slot *slot;
	uint64_t *ids;
};

struct shoal_loader {
	const struct shoal_catalog *cat;
	struct shoal_load_options options;
	struct shoal_order *order;
	uint64_t rank, nr_files;
	bool sizes;   /* the catalog has them */
	bool made_up; /* by a store that has any size */
	uint64_t slot_bytes;
	struct shoal_store *store;
	struct load_engine *engine;
	struct load_pool pool;
	struct ring_batch *ring;
	uint32_t nr_ring;
	struct shoal_sample *samples;
	struct slot *slots;
	uint64_t *ids;
	struct load_cached cached;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work, news;
	bool closing;
	uint64_t epoch, wanted, running; /* generations: an epoch was asked for, and is begun */
	uint64_t steps, next_fill, next_submit, next_take; /* which step comes next in each */
	int rc; /* why the epoch ended early, and the words */
	struct shoal_err err;
	struct shoal_load_stats stats;
	struct load_sums sums;
	struct load_histogram latency;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct ring_batch *batch_of(struct shoal_loader *l, uint64_t step)
{
	return &l->ring[step % l->nr_ring];
}

/* ---- Errors ---- */

/* With the lock held: the epoch ends here. */
static void end_epoch(struct shoal_loader *l, int rc, const char *words)
{
	if (l->rc < 0)
		return;
	l->rc = rc;
	snprintf(l->err.msg, sizeof(l->err.msg), "%s", words);
	pthread_cond_broadcast(&l->news);
}

/* With the lock held: a sample could not be had. */
static void take_error(struct shoal_loader *l, struct slot *s, int rc, const char *why)
{
	struct shoal_sample *sample = &s->batch->sample[s->index];
	char words[sizeof(l->stats.first_errors[0])];

	snprintf(words, sizeof(words), "sample %" PRIu64 " '%.100s': %s", sample->id, s->name, why);
	if (l->stats.nr_errors < SHOAL_ARRAY_LEN(l->stats.first_errors))
		memcpy(l->stats.first_errors[l->stats.nr_errors], words, sizeof(words));
	l->stats.nr_errors++;
	sample->error = rc;
	sample->data = NULL;
	sample->len = 0;
	if (!l->options.skip_errors)
		end_epoch(l, rc, words);
}

/* ---- Filling a batch ---- */

/* What to read for the sample: its file, and where in it. */
static int locate(const struct shoal_loader *l, struct slot *s, uint64_t id)
{
	uint64_t index = 0, first, count = 1, size = SHOAL_SIZE_UNKNOWN;
	int rc = shoal_catalog_locate(l->cat, id, &s->file, &index);

	if (rc == 0)
		rc = shoal_catalog_samples(l->cat, s->file, &first, &count);
	if (rc == 0)
		rc = shoal_catalog_name(l->cat, s->file, s->name);
	if (rc >= 0)
		rc = shoal_catalog_size(l->cat, s->file, &size);
	if (rc < 0)
		return rc;
	s->request.off = 0;
	s->request.len = size;
	if (l->options.object_size) {
		s->request.len = l->options.object_size;
		return 0;
	}
	if (size == SHOAL_SIZE_UNKNOWN) /* as much as there is room for */
		s->request.len = l->slot_bytes;
	if (count > 1 &&
	    size != SHOAL_SIZE_UNKNOWN) { /* records of equal size; the last has the rest */
		s->request.off = size / count * index;
		s->request.len = index + 1 < count ? size / count : size - s->request.off;
	}
	return 0;
}

/* The next step's samples. Called without the lock: a batch that is being filled is ours. */
static int fill(struct shoal_loader *l, struct ring_batch *b, uint64_t step)
{
	int64_t nr = shoal_order_batch(l->order, step, l->rank, b->ids);

	if (nr < 0)
		return (int)nr;
	b->public = (struct shoal_batch){ .step = step, .nr = (size_t)nr, .sample = b->sample };
	b->nr_submitted = b->nr_done = 0;
	for (uint32_t i = 0; i < nr; i++) {
		struct slot *s = &b->slot[i];
		int rc;

		b->sample[i] = (struct shoal_sample){ .id = b->ids[i] };
		s->batch = b;
		s->index = i;
		rc = locate(l, s, b->ids[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- Submitting and reaping ---- */

static void submit(struct shoal_loader *l, struct slot *s)
{
	struct load_request *r = &s->request;

	r->name = s->name;
	r->buf = load_pool_slot(&l->pool, (size_t)(s - l->slots));
	r->cap = l->pool.slot;
	load_cached_look(&l->cached, s->name, r->off, r->len);
	load_engine_submit(l->engine, r);
}

/* With the lock held, which it gives up meanwhile: start what there is room for. */
static void submit_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->next_submit < l->next_fill &&
	       load_engine_pending(l->engine) < l->options.in_flight) {
		struct ring_batch *b = batch_of(l, l->next_submit);

		if (b->nr_submitted == b->public.nr) {
			l->next_submit++;
			continue;
		}
		if (b->slot[b->nr_submitted].request.len > l->slot_bytes) {
			struct slot *s = &b->slot[b->nr_submitted++];

			b->nr_done++;
			take_error(l, s, -EFBIG, "it is larger than the room for a sample");
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		submit(l, &b->slot[b->nr_submitted++]);
		pthread_mutex_lock(&l->lock);
	}
}

/* With the lock held: a read has ended, one way or the other. */
static void take_done(struct shoal_loader *l, struct slot *s)
{
	const struct load_request *r = &s->request;
	struct shoal_sample *sample = &s->batch->sample[s->index];
	bool known = l->sizes;
	char why[128];

	s->batch->nr_done++;
	if (l->made_up && r->result > (int64_t)r->len)
		s->request.result = (int64_t)r->len; /* there is always more of it */
	if (r->result >= 0)
		load_histogram_add(&l->latency, r->finished - r->started);
	if (r->result < 0) {
		struct shoal_err err = { "" };

		take_error(l, s, load_engine_why(l->engine, r, &err), err.msg);
	} else if ((uint64_t)r->result > r->len) {
		snprintf(why, sizeof(why), "it is larger than the %" PRIu64 " bytes %s", r->len,
			 known ? "that the catalog has" : "that there is room for");
		take_error(l, s, -EFBIG, why);
	} else if (known && (uint64_t)r->result < r->len) {
		snprintf(why, sizeof(why),
			 "it has %" PRId64 " bytes of the %" PRIu64 " that the catalog has",
			 r->result, r->len);
		take_error(l, s, -ENODATA, why);
	} else {
		sample->data = r->data;
		sample->len = (uint64_t)r->result;
	}
}

/* With the lock held: batches that are done, in whatever sequence, are ready. */
static void finish_batches(struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		struct ring_batch *b = &l->ring[i];

		if (b->state == FILLING && b->nr_done == b->public.nr) {
			b->state = READY;
			pthread_cond_broadcast(&l->news);
		}
	}
}

/* ---- Stalls ---- */

/* With the lock held: which samples have been in flight for too long. */
static void watch(struct shoal_loader *l, uint64_t *told)
{
	uint64_t now = now_ns(), oldest = now;
	const struct slot *slowest = NULL;
	unsigned nr = 0;
	char words[256];

	for (uint32_t i = 0; i < l->nr_ring; i++) {
		const struct ring_batch *b = &l->ring[i];

		for (uint32_t k = 0; b->state == FILLING && k < b->nr_submitted; k++) {
			const struct load_request *r = &b->slot[k].request;

			if (r->finished || !r->started ||
			    now - r->started < l->options.stall_ms * 1000000)
				continue;
			nr++;
			if (r->started < oldest) {
				oldest = r->started;
				slowest = &b->slot[k];
			}
		}
	}
	if (!slowest)
		return;
	snprintf(words, sizeof(words),
		 "%u samples are in flight for longer than %" PRIu64 " s, the oldest for %" PRIu64
		 " s: '%.120s'",
		 nr, l->options.stall_ms / 1000, (now - oldest) / 1000000000, slowest->name);
	if (l->options.timeout_ms && now - oldest > l->options.timeout_ms * 1000000)
		end_epoch(l, -ETIMEDOUT, words);
	else if (l->options.stalled && now - *told > l->options.stall_ms * 1000000) {
		l->options.stalled(l->options.self, words);
		*told = now;
	}
}

/* ---- The thread ---- */

/* With the lock held: begin the epoch that was asked for, once nothing of the last is in flight. */
static void begin_epoch(struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (l->ring[i].state != HELD)
			l->ring[i].state = FREE;
	if (l->running > 0 || l->epoch > 0)
		shoal_order_set_epoch(l->order, l->epoch);
	l->steps = shoal_order_steps(l->order);
	l->next_fill = l->next_submit = l->next_take = 0;
	l->rc = 0;
	l->stats = (struct shoal_load_stats){ 0 };
	l->sums = (struct load_sums){ 0 };
	memset(&l->latency, 0, sizeof(l->latency));
	load_cached_clear(&l->cached);
	l->running = l->wanted;
	pthread_cond_broadcast(&l->news);
}

/* With the lock held, which it gives up meanwhile. */
static void fill_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->running == l->wanted && l->next_fill < l->steps) {
		struct ring_batch *b = batch_of(l, l->next_fill);
		uint64_t step = l->next_fill;
		struct shoal_err err = { "" };
		int rc;

		if (b->state != FREE)
			return;
		pthread_mutex_unlock(&l->lock);
		rc = fill(l, b, step);
		pthread_mutex_lock(&l->lock);
		if (rc < 0) {
			shoal_catalog_explain(l->cat, rc, &err);
			end_epoch(l, rc, err.msg);
			return;
		}
		b->state = FILLING;
		l->next_fill++;
	}
}

static void reap(struct shoal_loader *l)
{
	struct load_request *done[REAPED];
	struct shoal_err err = { "" };
	int nr;

	pthread_mutex_unlock(&l->lock);
	load_engine_kick(l->engine);
	nr = load_engine_reap(l->engine, done, REAPED, REAP_US, &err);
	pthread_mutex_lock(&l->lock);
	for (int i = 0; i < nr; i++)
		take_done(l, (struct slot *)(void *)done[i]);
	if (nr < 0)
		end_epoch(l, nr, err.msg);
}

/* With the lock held: whether there is something to do that needs no read to end first. */
static bool can_go_on(const struct shoal_loader *l)
{
	if (l->running != l->wanted)
		return true;
	if (l->rc < 0)
		return false;
	if (l->next_fill < l->steps && l->ring[l->next_fill % l->nr_ring].state == FREE)
		return true;
	return l->next_submit < l->next_fill;
}

static void *load_thread(void *arg)
{
	struct shoal_loader *l = arg;
	uint64_t told = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->closing) {
		if (l->running != l->wanted && load_engine_pending(l->engine) == 0)
			begin_epoch(l);
		if (l->running == l->wanted) {
			fill_more(l);
			submit_more(l);
			finish_batches(l);
		}
		if (load_engine_pending(l->engine) > 0) {
			reap(l);
			finish_batches(l);
			watch(l, &told);
		} else if (!l->closing && !can_go_on(l)) {
			pthread_cond_wait(&l->work, &l->lock);
		}
	}
	pthread_mutex_unlock(&l->lock);
	l->engine = load_engine_free(l->engine); /* belongs to this thread; waits for its reads */
	return NULL;
}

/* ---- Opening and closing ---- */

/* The largest sample that the catalog has, in bytes. */
static int largest(const struct shoal_catalog *cat, uint64_t *ret_size, struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc;

	shoal_catalog_info(cat, &info);
	*ret_size = 0;
	if (info.nr_bytes == SHOAL_SIZE_UNKNOWN)
		return shoal_fail(err, -EINVAL,
				  "the catalog has no sizes: say how large a sample may be");
	rc = shoal_catalog_largest(cat, ret_size);
	if (rc < 0)
		return shoal_catalog_explain(cat, rc, err);
	if (info.samples_per_file > 1) /* the last record of a file has what is left over */
		*ret_size = *ret_size / info.samples_per_file + *ret_size % info.samples_per_file;
	return 0;
}

static int take_memory(struct shoal_loader *l, struct shoal_err *err)
{
	uint64_t batch = shoal_order_spec(l->order)->batch;
	uint64_t nr = (uint64_t)l->nr_ring * batch;
	struct shoal_catalog_info info;
	int rc;

	if (batch > UINT32_MAX || nr > UINT32_MAX)
		return shoal_fail(err, -EINVAL, "a batch of %" PRIu64 " samples is too large",
				  batch);
	shoal_catalog_info(l->cat, &info);
	rc = load_pool_init(&l->pool, l->slot_bytes, info.samples_per_file != 1, nr, err);
	if (rc < 0)
		return rc;
	/* For each sample of the ring its slot with a name, and a few numbers: some 4.3 KB. */
	l->ring = calloc(l->nr_ring, sizeof(*l->ring));
	l->samples = calloc(nr, sizeof(*l->samples));
	l->slots = calloc(nr, sizeof(*l->slots));
	l->ids = calloc(nr, sizeof(*l->ids));
	if (!l->ring || !l->samples || !l->slots || !l->ids)
		return shoal_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < l->nr_ring; i++)
		l->ring[i] = (struct ring_batch){ .sample = l->samples + i * batch,
						  .slot = l->slots + i * batch,
						  .ids = l->ids + i * batch };
	return 0;
}

static int open_engine(struct shoal_loader *l, struct shoal_err *err)
{
	static const enum load_engine_kind kinds[] = { [SHOAL_ENGINE_AUTO] = LOAD_AUTO,
						       [SHOAL_ENGINE_URING] = LOAD_URING,
						       [SHOAL_ENGINE_THREADS] = LOAD_THREADS };
	struct shoal_catalog_info info;
	struct load_engine_options eo = { .kind = kinds[l->options.engine],
					  .in_flight = l->options.in_flight,
					  .direct = l->options.direct,
					  .pool = l->pool.bytes,
					  .pool_len = l->pool.len };
	int rc;

	shoal_catalog_info(l->cat, &info);
	rc = shoal_store_open(l->options.store ? l->options.store : info.root, &l->store, err);
	if (rc < 0)
		return rc;
	eo.store = l->store;
	l->made_up = strncmp(l->store->uri, "null:", 5) == 0;
	if (l->options.object_size && !l->made_up)
		return shoal_fail(err, -EINVAL, "an object size is for the null store only");
	load_cached_init(&l->cached, l->store);
	return load_engine_new(&eo, &l->engine, err);
}

static void set_defaults(struct shoal_loader *l, const struct shoal_load_options *options)
{
	l->options = *options;
	if (!l->options.in_flight)
		l->options.in_flight = IN_FLIGHT;
	if (!l->options.prefetch)
		l->options.prefetch = PREFETCH;
	if (!l->options.stall_ms)
		l->options.stall_ms = STALL_MS;
	l->nr_ring = l->options.prefetch + 1;
}

static int open_parts(struct shoal_loader *l, const struct shoal_order_spec *spec,
		      struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc;

	shoal_catalog_info(l->cat, &info);
	l->sizes = info.nr_bytes != SHOAL_SIZE_UNKNOWN;
	l->nr_files = info.nr_files;
	l->slot_bytes = l->options.slot ? l->options.slot : l->options.object_size;
	if (spec->nr_samples != info.nr_samples)
		return shoal_fail(err, -EINVAL,
				  "the order is of %" PRIu64
				  " samples, and the catalog has %" PRIu64,
				  spec->nr_samples, info.nr_samples);
	if (l->rank >= spec->nr_ranks)
		return shoal_fail(err, -EINVAL, "there is no rank %" PRIu64 " of %" PRIu64, l->rank,
				  spec->nr_ranks);
	rc = shoal_order_new(spec, 0, &l->order, err);
	if (rc == 0 && l->slot_bytes == 0)
		rc = largest(l->cat, &l->slot_bytes, err);
	if (rc == 0)
		rc = take_memory(l, err);
	if (rc == 0)
		rc = open_engine(l, err);
	return rc;
}

int shoal_loader_open(const struct shoal_catalog *cat, const struct shoal_order_spec *spec,
		      uint64_t rank, const struct shoal_load_options *options,
		      struct shoal_loader **ret_loader, struct shoal_err *err)
{
	struct shoal_loader *l = calloc(1, sizeof(*l));
	pthread_condattr_t attr;
	int rc;

	if (!l)
		return shoal_fail(err, -ENOMEM, "out of memory");
	l->cat = cat;
	l->rank = rank;
	set_defaults(l, options);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->news, &attr);
	pthread_condattr_destroy(&attr);
	rc = open_parts(l, spec, err);
	if (rc == 0) {
		rc = shoal_thread_start(&l->thread, load_thread, l);
		l->started = rc == 0;
		if (rc < 0)
			shoal_fail_errno(err, rc, "cannot start the loader");
	}
	if (rc < 0)
		shoal_loader_close(l);
	else
		*ret_loader = l;
	return rc;
}

struct shoal_loader *shoal_loader_close(struct shoal_loader *l)
{
	if (!l)
		return NULL;
	pthread_mutex_lock(&l->lock);
	l->closing = true;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
	if (l->started)
		pthread_join(l->thread, NULL);
	load_engine_free(l->engine); /* of a loader whose thread did not start */
	shoal_store_close(l->store);
	shoal_order_free(l->order);
	load_pool_release(&l->pool);
	free(l->ring);
	free(l->samples);
	free(l->slots);
	free(l->ids);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->work);
	pthread_cond_destroy(&l->news);
	free(l);
	return NULL;
}

/* ---- Epochs and batches ---- */

int shoal_loader_epoch(struct shoal_loader *l, uint64_t epoch, struct shoal_err *err)
{
	(void)err;
	pthread_mutex_lock(&l->lock);
	l->epoch = epoch;
	l->wanted++;
	pthread_cond_broadcast(&l->work);
	while (l->running != l->wanted)
		pthread_cond_wait(&l->news, &l->lock);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

/* With the lock held. */
static void count_delivered(struct shoal_loader *l, const struct ring_batch *b)
{
	const struct shoal_order_spec *spec = shoal_order_spec(l->order);
	uint64_t first = spec->consumed + (b->public.step * spec->nr_ranks + l->rank) * spec->batch;

	for (size_t i = 0; i < b->public.nr; i++) {
		const struct shoal_sample *s = &b->sample[i];

		if (l->sizes)
			l->stats.bytes_asked += b->slot[i].request.len;
		if (s->error)
			continue;
		l->stats.nr_samples++;
		l->stats.bytes_delivered += s->len;
		load_sums_add(&l->sums, s->id, first + i);
	}
}

/* With the lock held: wait for the thread, but not for ever at once: a signal may want us to stop.
 */
static int wait_for_news(struct shoal_loader *l, struct shoal_err *err)
{
	struct timespec until;

	if (l->options.stop && __atomic_load_n(l->options.stop, __ATOMIC_RELAXED))
		return shoal_fail(err, -ECANCELED, "interrupted");
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += until.tv_nsec >= 900000000;
	until.tv_nsec = (until.tv_nsec + 100000000) % 1000000000;
	pthread_cond_timedwait(&l->news, &l->lock, &until);
	return 0;
}

int shoal_loader_next(struct shoal_loader *l, const struct shoal_batch **ret_batch,
		      struct shoal_err *err)
{
	struct ring_batch *b;
	uint64_t start = 0;
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	b = batch_of(l, l->next_take);
	if (l->running == 0) {
		rc = shoal_fail(err, -EINVAL, "no epoch was begun");
	} else if (l->next_take < l->steps && b->state == HELD) {
		rc = shoal_fail(err, -EBUSY, "give batches back first: %u are held", l->nr_ring);
	} else {
		while (rc == 0 && l->rc == 0 && l->next_take < l->steps &&
		       (b->state != READY || b->public.step != l->next_take)) {
			start = start ? start : now_ns();
			rc = wait_for_news(l, err);
		}
		l->stats.wait_ns += start ? now_ns() - start : 0;
		if (rc == 0 && l->rc < 0)
			rc = shoal_fail(err, l->rc, "%s", l->err.msg);
		else if (rc == 0 && l->next_take < l->steps)
			rc = 1;
	}
	if (rc == 1) {
		b->state = HELD;
		l->next_take++;
		count_delivered(l, b);
		*ret_batch = &b->public;
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void shoal_loader_give_back(struct shoal_loader *l, const struct shoal_batch *batch)
{
	pthread_mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (&l->ring[i].public == batch && l->ring[i].state == HELD)
			l->ring[i].state = FREE;
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
}

/* ---- What was done ---- */

void shoal_loader_stats(const struct shoal_loader *loader, struct shoal_load_stats *ret_stats)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader; /* for its lock */

	pthread_mutex_lock(&l->lock);
	*ret_stats = l->stats;
	memcpy(ret_stats->sum_ids, l->sums.ids, sizeof(l->sums.ids));
	memcpy(ret_stats->sum_order, l->sums.order, sizeof(l->sums.order));
	ret_stats->nr_pages = l->cached.nr_pages;
	ret_stats->nr_cached = l->cached.nr_cached;
	ret_stats->pool_bytes = l->pool.len;
	ret_stats->engine = load_engine_name(l->engine);
	ret_stats->engine_detail = load_engine_detail(l->engine);
	pthread_mutex_unlock(&l->lock);
}

const struct shoal_order *load_order(const struct shoal_loader *l)
{
	return l->order;
}

void load_latency(const struct shoal_loader *loader, struct load_histogram *ret_latency)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader;

	pthread_mutex_lock(&l->lock);
	*ret_latency = l->latency;
	pthread_mutex_unlock(&l->lock);
}
