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

/* Of a name that is longer than this, errors show the end. */
#define NAME_SHOWN 90u

#define PREFETCH_MAX 65536u

/* One sample on its way. */
struct slot {
	struct load_request request; /* first: it is what comes back */
	struct ring_batch *batch;
	uint32_t index; /* in the batch */
	bool more;      /* the file goes on behind it: bytes there are no growth */
	bool in_flight; /* the engine has it */
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
	uint64_t rank;
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

/* With the lock held: one of the ring that nobody uses, or NULL. They are given back in any order.
 */
static struct ring_batch *free_batch(const struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (l->ring[i].state == FREE)
			return &l->ring[i];
	return NULL;
}

/* With the lock held: the batch that has the step's samples, or will have, or NULL. */
static struct ring_batch *batch_of(const struct shoal_loader *l, uint64_t step)
{
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		struct ring_batch *b = &l->ring[i];

		if ((b->state == FILLING || b->state == READY) && b->public.step == step)
			return b;
	}
	return NULL;
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

/* What became of a sample: 0, or an error and, where @err is not NULL, words. */
static int judge(const struct shoal_loader *l, const struct slot *s, struct shoal_err *err)
{
	struct load_request r = s->request;
	size_t len;

	if (r.len <= l->slot_bytes && r.result >= 0 &&
	    ((uint64_t)r.result == r.len || ((uint64_t)r.result > r.len && s->more)))
		return 0; /* nearly always */
	len = strlen(s->name);
	r.name = s->name + (len > NAME_SHOWN ? len - NAME_SHOWN : 0); /* its end tells more */
	if (r.len > l->slot_bytes)
		return shoal_fail(err, -EFBIG,
				  "'%s' has %" PRIu64
				  " bytes, and the room for a sample is %" PRIu64,
				  r.name, r.len, l->slot_bytes);
	if (r.result < 0)
		return load_engine_why(l->engine, &r, err);
	if ((uint64_t)r.result > r.len)
		return shoal_fail(err, -EFBIG, "'%s' is larger than the %" PRIu64 " bytes that %s",
				  r.name, r.len,
				  l->sizes ? "the catalog has" : "there is room for");
	if ((uint64_t)r.result < r.len && l->sizes)
		return shoal_fail(err, -ENODATA,
				  "'%s' has %" PRId64 " bytes of the %" PRIu64
				  " that the catalog has",
				  r.name, r.result, r.len);
	return 0;
}

/* With the lock held: a batch is taken that lacks a sample. */
static void count_error(struct shoal_loader *l, const struct slot *s)
{
	uint64_t nr = l->stats.nr_errors++;
	struct shoal_err err = { "" };

	if (nr >= SHOAL_ARRAY_LEN(l->stats.first_errors))
		return;
	judge(l, s, &err);
	snprintf(l->stats.first_errors[nr], sizeof(l->stats.first_errors[nr]),
		 "sample %" PRIu64 ": %.160s", s->batch->sample[s->index].id, err.msg);
}

/* ---- Filling a batch ---- */

/* What to read for the sample: its file, and where in it. */
static int locate(const struct shoal_loader *l, struct slot *s, uint64_t id)
{
	uint64_t file = 0, index = 0, first, count = 1, size = SHOAL_SIZE_UNKNOWN;
	int rc = shoal_catalog_locate(l->cat, id, &file, &index);

	if (rc == 0)
		rc = shoal_catalog_samples(l->cat, file, &first, &count);
	if (rc == 0)
		rc = shoal_catalog_name(l->cat, file, s->name);
	if (rc >= 0)
		rc = shoal_catalog_size(l->cat, file, &size);
	if (rc < 0)
		return rc;
	s->more = l->made_up; /* there is always more of it */
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
		s->more = s->more || index + 1 < count;
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
	s->in_flight = true;
	load_cached_look(&l->cached, s->name, r->off, r->len);
	load_engine_submit(l->engine, r);
}

/* With the lock held, which it gives up meanwhile: start what there is room for. */
static void submit_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->running == l->wanted && l->next_submit < l->next_fill &&
	       load_engine_pending(l->engine) < l->options.in_flight) {
		struct ring_batch *b = batch_of(l, l->next_submit);

		if (!b || b->nr_submitted == b->public.nr) { /* taken already, or all in flight */
			l->next_submit++;
			continue;
		}
		if (b->slot[b->nr_submitted].request.len > l->slot_bytes) {
			b->sample[b->nr_submitted++].error = -EFBIG;
			b->nr_done++;
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		submit(l, &b->slot[b->nr_submitted++]);
		pthread_mutex_lock(&l->lock);
		l->stats.nr_pages = l->cached.nr_pages;
		l->stats.nr_cached = l->cached.nr_cached;
	}
}

/* With the lock held: a read has ended, one way or the other. Words are for whoever takes it. */
static void take_done(struct shoal_loader *l, struct slot *s)
{
	const struct load_request *r = &s->request;
	struct shoal_sample *sample = &s->batch->sample[s->index];

	s->batch->nr_done++;
	s->in_flight = false;
	if (r->result >= 0)
		load_histogram_add(&l->latency, r->finished - r->started);
	sample->error = judge(l, s, NULL);
	if (sample->error < 0)
		return;
	sample->data = r->data;
	sample->len = shoal_min((uint64_t)r->result, r->len);
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

/* With the lock held: how many samples are in flight for @ms or longer, and the oldest of them. */
static unsigned find_stalled(const struct shoal_loader *l, uint64_t now, uint64_t ms,
			     const struct slot **ret_oldest)
{
	unsigned nr = 0;

	*ret_oldest = NULL;
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		const struct ring_batch *b = &l->ring[i];

		for (uint32_t k = 0; b->state == FILLING && k < b->nr_submitted; k++) {
			const struct slot *s = &b->slot[k];

			if (!s->in_flight || (now - s->request.started) / 1000000 < ms)
				continue;
			nr++;
			if (!*ret_oldest || s->request.started < (*ret_oldest)->request.started)
				*ret_oldest = s;
		}
	}
	return nr;
}

/* With the lock held: tell of samples that are in flight for too long, or give up. */
static void watch(struct shoal_loader *l, uint64_t *told)
{
	uint64_t now = now_ns(), stall = l->options.stall_ms, timeout = l->options.timeout_ms;
	uint64_t ms = timeout && timeout < stall ? timeout : stall, age;
	const struct slot *oldest;
	unsigned nr = find_stalled(l, now, ms, &oldest);
	char words[256];

	if (nr == 0)
		return;
	age = (now - oldest->request.started) / 1000000;
	snprintf(words, sizeof(words),
		 "%u sample%s in flight for longer than %g s, the oldest for %.1f s: '%.120s'", nr,
		 nr == 1 ? " is" : "s are", (double)ms * 1e-3, (double)age * 1e-3, oldest->name);
	if (timeout && age >= timeout) {
		end_epoch(l, -ETIMEDOUT, words);
	} else if (l->options.stalled && (now - *told) / 1000000 >= stall) {
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
	if (l->running > 0) /* the first stands where the spec says */
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
		struct ring_batch *b = free_batch(l);
		uint64_t step = l->next_fill;
		struct shoal_err err = { "" };
		int rc;

		if (!b)
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
	if (l->next_fill < l->steps && free_batch(l))
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
		return shoal_fail(
			err, -EINVAL,
			"the catalog has no sizes: say how large a sample may be (--slot)");
	rc = shoal_catalog_largest(cat, ret_size);
	if (rc < 0)
		return shoal_catalog_explain(cat, rc, err);
	/* The last record of a file has what is left over, more of it maybe in a smaller file. */
	if (info.samples_per_file > 1)
		*ret_size = shoal_min(*ret_size, *ret_size / info.samples_per_file +
							 (info.samples_per_file - 1));
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
	if (!l->sizes && !l->made_up && info.samples_per_file != 1)
		return shoal_fail(err, -EINVAL,
				  "the catalog has no sizes, so it is not known where in a file "
				  "its samples are: index it with sizes");
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

static int check_options(const struct shoal_load_options *o, struct shoal_err *err)
{
	if (o->prefetch > PREFETCH_MAX)
		return shoal_fail(err, -EINVAL, "%u batches ahead: there are 1 to %u", o->prefetch,
				  PREFETCH_MAX);
	if ((unsigned)o->engine > SHOAL_ENGINE_THREADS)
		return shoal_fail(err, -EINVAL, "there is no engine %u", (unsigned)o->engine);
	return 0;
}

static int open_parts(struct shoal_loader *l, const struct shoal_order_spec *spec,
		      struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc;

	shoal_catalog_info(l->cat, &info);
	l->sizes = info.nr_bytes != SHOAL_SIZE_UNKNOWN;
	l->slot_bytes = l->options.slot ? l->options.slot : l->options.object_size;
	if (spec->nr_samples != info.nr_samples)
		return shoal_fail(err, -EINVAL,
				  "the order is of %" PRIu64
				  " samples, and the catalog has %" PRIu64,
				  spec->nr_samples, info.nr_samples);
	if (l->rank >= spec->nr_ranks)
		return shoal_fail(err, -EINVAL, "there is no rank %" PRIu64 " of %" PRIu64, l->rank,
				  spec->nr_ranks);
	rc = check_options(&l->options, err);
	if (rc == 0)
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

static bool stopped(const struct shoal_loader *l)
{
	return l->options.stop && __atomic_load_n(l->options.stop, __ATOMIC_RELAXED);
}

/* With the lock held: wait for the thread, but not for ever at once: a signal may want us to stop.
 */
static int wait_for_news(struct shoal_loader *l, struct shoal_err *err)
{
	struct timespec until;

	if (stopped(l))
		return shoal_fail(err, -ECANCELED, "interrupted");
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += until.tv_nsec >= 900000000;
	until.tv_nsec = (until.tv_nsec + 100000000) % 1000000000;
	pthread_cond_timedwait(&l->news, &l->lock, &until);
	return 0;
}

/* With the lock held: the order as opened is of epoch 0, and `consumed` is of the first begun. */
static int first_order(struct shoal_loader *l, uint64_t epoch, struct shoal_err *err)
{
	struct shoal_order *order;
	int rc = shoal_order_new(shoal_order_spec(l->order), epoch, &order, err);

	if (rc < 0)
		return rc;
	shoal_order_free(l->order);
	l->order = order;
	return 0;
}

int shoal_loader_epoch(struct shoal_loader *l, uint64_t epoch, struct shoal_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	if (l->wanted == 0)
		rc = first_order(l, epoch, err);
	if (rc == 0) {
		l->epoch = epoch;
		l->wanted++;
		pthread_cond_broadcast(&l->work);
	}
	while (rc == 0 && l->running != l->wanted)
		rc = wait_for_news(l, err);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* With the lock held. */
static void count_delivered(struct shoal_loader *l, const struct ring_batch *b)
{
	const struct shoal_order_spec *spec = shoal_order_spec(l->order);
	uint64_t first = spec->consumed + (b->public.step * spec->nr_ranks + l->rank) * spec->batch;

	for (size_t i = 0; i < b->public.nr; i++) {
		const struct shoal_sample *s = &b->sample[i];

		if (l->sizes || l->options.object_size)
			l->stats.bytes_asked += b->slot[i].request.len;
		if (s->error) {
			count_error(l, &b->slot[i]);
			continue;
		}
		l->stats.nr_samples++;
		l->stats.bytes_delivered += s->len;
		load_sums_add(&l->sums, s->id, first + i);
	}
}

/* With the lock held: whether all batches are held, so that none can ever be ready. */
static bool all_held(const struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (l->ring[i].state != HELD)
			return false;
	return true;
}

/* With the lock held: wait until the next batch is ready, the epoch ended early, or an error. */
static int wait_for_batch(struct shoal_loader *l, struct ring_batch **ret_batch,
			  struct shoal_err *err)
{
	uint64_t start = 0;
	int rc = 0;

	while (rc == 0 && l->rc == 0) {
		*ret_batch = batch_of(l, l->next_take);
		if (*ret_batch && (*ret_batch)->state == READY)
			break;
		start = start ? start : now_ns();
		rc = wait_for_news(l, err);
	}
	l->stats.wait_ns += start ? now_ns() - start : 0;
	return rc;
}

/* With the lock held: what the first error of the batch in the order's order says, if it counts. */
static void check_batch(struct shoal_loader *l, const struct ring_batch *b)
{
	for (size_t i = 0; i < b->public.nr && l->rc == 0 && !l->options.skip_errors; i++) {
		if (!b->sample[i].error)
			continue;
		count_error(l, &b->slot[i]);
		end_epoch(l, b->sample[i].error, l->stats.first_errors[0]);
	}
}

/* With the lock held, in an epoch. */
static int take_next(struct shoal_loader *l, struct ring_batch **ret_batch, struct shoal_err *err)
{
	int rc = 0;

	if (stopped(l))
		return shoal_fail(err, -ECANCELED, "interrupted");
	if (l->rc == 0 && l->next_take == l->steps)
		return 0;
	if (l->rc == 0 && all_held(l))
		return shoal_fail(err, -EBUSY, "give batches back first: %u are held", l->nr_ring);
	rc = wait_for_batch(l, ret_batch, err);
	if (rc < 0)
		return rc;
	if (l->rc == 0)
		check_batch(l, *ret_batch);
	if (l->rc < 0)
		return shoal_fail(err, l->rc, "%s", l->err.msg);
	(*ret_batch)->state = HELD;
	l->next_take++;
	count_delivered(l, *ret_batch);
	return 1;
}

int shoal_loader_next(struct shoal_loader *l, const struct shoal_batch **ret_batch,
		      struct shoal_err *err)
{
	struct ring_batch *b = NULL;
	int rc;

	pthread_mutex_lock(&l->lock);
	if (l->running == 0 || l->running != l->wanted)
		rc = shoal_fail(err, -EINVAL, "no epoch was begun");
	else
		rc = take_next(l, &b, err);
	if (rc == 1)
		*ret_batch = &b->public;
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
