/*
 * The caller's side: opening and closing, epochs, and batches taken and given back. One thread of
 * the loader's own reads ahead: ahead.c. All memory is taken when it is opened: a ring of batches,
 * each with a slot of the pool and room for a name for every sample.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/queue.h"
#include "base/text.h"
#include "load/loader_inside.h"

#define IN_FLIGHT 64u
#define PREFETCH  2u
#define STALL_MS  10000u

#define PREFETCH_MAX 65536u

/* Of a piece, unless a slot is given. */
#define PIECE (UINT64_C(1) << 20)

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

/*
 * One for each file that pieces in the ring share, or those that come next: 8 bytes a slot. They
 * are begun in turn, and batches handed out in the same order: when it is the first one's turn
 * again, all that it was for has been read.
 */
static int take_files(struct shoal_loader *l, uint64_t nr)
{
	if (l->piece == UINT64_MAX)
		return 0;
	l->nr_files = (uint32_t)shoal_min(nr + 1, UINT32_MAX);
	l->files = calloc(l->nr_files, sizeof(*l->files));
	if (!l->files)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->nr_files; i++)
		load_file_init(&l->files[i], 0);
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
	rc = load_pool_init(&l->pool, l->slot_bytes,
			    info.samples_per_file != 1 || l->piece < LOAD_ALIGN, nr, err);
	if (rc < 0)
		return rc;
	/* For each sample of the ring its slot with a name, and a few numbers: some 4.3 KB. */
	l->ring = calloc(l->nr_ring, sizeof(*l->ring));
	l->samples = calloc(nr, sizeof(*l->samples));
	l->slots = calloc(nr, sizeof(*l->slots));
	l->cursor.ids = calloc(batch, sizeof(*l->cursor.ids));
	if (!l->ring || !l->samples || !l->slots || !l->cursor.ids || take_files(l, nr) < 0)
		return shoal_fail(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < l->nr_ring; i++)
		l->ring[i] = (struct load_batch){ .sample = l->samples + i * batch,
						  .slot = l->slots + i * batch };
	return 0;
}

int load_check_etags(const struct shoal_catalog *cat, const char *store, struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	if (strncmp(store ? store : info.root, "s3://", strlen("s3://")) != 0)
		return shoal_fail(err, -EINVAL,
				  "only objects in a bucket have ETags, so --if-match is for "
				  "s3://bucket/prefix");
	if (!info.etags)
		return shoal_fail(err, -EINVAL,
				  "the catalog has no ETags, which --if-match needs: index the "
				  "bucket again with --etags");
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
	load_cached_init(&l->cached, l->store, l->options.direct);
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
	if (!l->options.stride)
		l->options.stride = 1;
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

/* How much room a sample has, and of which size pieces are. */
static int choose_slot(struct shoal_loader *l, struct shoal_err *err)
{
	int rc = 0;

	l->piece = UINT64_MAX;
	l->slot_bytes = l->options.slot ? l->options.slot : l->options.object_size;
	if (l->options.pieces && !l->sizes && !l->options.object_size)
		return shoal_fail(err, -EINVAL,
				  "the catalog has no sizes, so it is not known how many pieces a "
				  "sample has: index it with sizes");
	if (l->slot_bytes == 0)
		rc = largest(l->cat, &l->slot_bytes, err);
	if (rc < 0 || !l->options.pieces)
		return rc;
	if (!l->options.slot)
		l->slot_bytes = shoal_min(l->slot_bytes, PIECE);
	/* Where one begins the next ends: direct reads like it to be at a block. */
	l->piece = l->slot_bytes < LOAD_ALIGN ? l->slot_bytes
					      : l->slot_bytes / LOAD_ALIGN * LOAD_ALIGN;
	l->piece = shoal_max(l->piece, 1);
	return 0;
}

static int open_parts(struct shoal_loader *l, const struct shoal_order_spec *spec,
		      struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc;

	shoal_catalog_info(l->cat, &info);
	l->sizes = info.nr_bytes != SHOAL_SIZE_UNKNOWN;
	if (l->options.part && (l->options.first > info.nr_samples ||
				spec->nr_samples > info.nr_samples - l->options.first))
		return shoal_fail(err, -EINVAL,
				  "the order is of %" PRIu64 " samples from %" PRIu64
				  " on, and the catalog has %" PRIu64,
				  spec->nr_samples, l->options.first, info.nr_samples);
	if (!l->options.part && (l->options.first || spec->nr_samples != info.nr_samples))
		return shoal_fail(err, -EINVAL,
				  "the order is of %" PRIu64
				  " samples, and the catalog has %" PRIu64,
				  spec->nr_samples, info.nr_samples);
	if (l->rank >= spec->nr_ranks)
		return shoal_fail(err, -EINVAL, "there is no rank %" PRIu64 " of %" PRIu64, l->rank,
				  spec->nr_ranks);
	rc = check_options(&l->options, err);
	if (rc == 0 && l->options.if_match)
		rc = load_check_etags(l->cat, l->options.store, err);
	if (rc == 0)
		rc = shoal_order_new(spec, 0, &l->order, err);
	if (rc == 0)
		rc = choose_slot(l, err);
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
	l->all_filled = true; /* there is no epoch yet */
	set_defaults(l, options);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&l->news, &attr);
	pthread_condattr_destroy(&attr);
	rc = open_parts(l, spec, err);
	if (rc == 0) {
		rc = shoal_thread_start(&l->thread, load_ahead, l);
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
	if (l->reaping)
		load_engine_wake(l->engine);
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
	free(l->files);
	free(l->cursor.ids);
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

/*
 * With the lock held, which it gives up meanwhile: wait for the thread, but not for ever at once: a
 * signal may want us to stop, or the caller has other things to hear.
 */
static int wait_for_news(struct shoal_loader *l, struct shoal_err *err)
{
	struct timespec until;
	int rc = 0;

	if (stopped(l))
		return shoal_fail(err, -ECANCELED, "interrupted");
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += until.tv_nsec >= 900000000;
	until.tv_nsec = (until.tv_nsec + 100000000) % 1000000000;
	if (pthread_cond_timedwait(&l->news, &l->lock, &until) == ETIMEDOUT && l->options.waiting) {
		pthread_mutex_unlock(&l->lock);
		rc = l->options.waiting(l->options.self, err);
		pthread_mutex_lock(&l->lock);
	}
	return rc < 0 ? rc : 0;
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
	if (l->running == 0) /* also when one was asked for before, and was interrupted */
		rc = first_order(l, epoch, err);
	if (rc == 0) {
		l->epoch = epoch;
		l->wanted++;
		l->late = false;
		pthread_cond_broadcast(&l->work);
	}
	while (rc == 0 && l->running != l->wanted && !l->broken && !l->late)
		rc = wait_for_news(l, err);
	if (rc == 0 && l->late)
		rc = shoal_fail(err, -ETIMEDOUT, "%s", l->err.msg);
	if (rc == 0 && l->broken)
		rc = shoal_fail_errno(err, l->broken, "the engine that reads has failed");
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* With the lock held: a batch is taken that lacks a sample. */
static void count_error(struct shoal_loader *l, const struct load_slot *s)
{
	uint64_t nr = l->stats.nr_errors++;
	struct shoal_err err = { "" };
	char *text;
	size_t room = sizeof(l->stats.first_errors[0]);

	if (nr >= SHOAL_ARRAY_LEN(l->stats.first_errors))
		return;
	text = l->stats.first_errors[nr];
	load_judge(l, s, &err);
	if ((size_t)snprintf(text, room, "sample %" PRIu64 ": %s", s->batch->sample[s->index].id,
			     err.msg) >= room)
		shoal_mark_cut(text);
}

/* With the lock held. */
static void count_delivered(struct shoal_loader *l, const struct load_batch *b)
{
	const struct shoal_order_spec *spec = shoal_order_spec(l->order);
	uint64_t first = spec->consumed + (b->public.step * spec->nr_ranks + l->rank) * spec->batch;

	for (size_t i = 0; i < b->public.nr; i++) {
		const struct shoal_sample *s = &b->sample[i];

		const struct load_slot *slot = &b->slot[i];

		if (l->sizes || l->options.object_size)
			l->stats.bytes_asked += slot->request.len;
		if (slot->off == 0)
			l->spoiled = false;
		if (s->error && !l->spoiled)
			count_error(l, slot);
		if (s->error) {
			l->spoiled = true;
			continue;
		}
		l->stats.bytes_delivered += s->len;
		if (!slot->last || l->spoiled)
			continue;
		l->stats.nr_samples++;
		load_sums_add(&l->sums, s->id - l->options.first, first + slot->place);
	}
}

/* With the lock held: whether all batches are held, so that none can ever be ready. */
static bool all_held(const struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (l->ring[i].state != BATCH_HELD)
			return false;
	return true;
}

/* With the lock held: wait until the next batch is ready, the epoch ended early, or an error. */
static int wait_for_batch(struct shoal_loader *l, struct load_batch **ret_batch,
			  struct shoal_err *err)
{
	uint64_t start = 0;
	int rc = 0;

	while (rc == 0 && l->rc == 0) {
		*ret_batch = load_batch_of(l, l->next_take);
		if (*ret_batch && (*ret_batch)->state == BATCH_READY)
			break;
		start = start ? start : load_now();
		rc = wait_for_news(l, err);
	}
	l->stats.wait_ns += start ? load_now() - start : 0;
	return rc;
}

/* With the lock held: what the first error of the batch in the order's order says, if it counts. */
static void check_batch(struct shoal_loader *l, const struct load_batch *b)
{
	for (size_t i = 0; i < b->public.nr && l->rc == 0 && !l->options.skip_errors; i++) {
		if (!b->sample[i].error)
			continue;
		count_error(l, &b->slot[i]);
		load_end_epoch(l, b->sample[i].error, l->stats.first_errors[0]);
	}
}

/* With the lock held: whether all batches of the epoch were taken. */
static bool at_end(const struct shoal_loader *l)
{
	return l->all_filled && l->next_take == l->next_fill;
}

/* With the lock held, in an epoch. */
static int take_next(struct shoal_loader *l, struct load_batch **ret_batch, struct shoal_err *err)
{
	int rc = 0;

	if (stopped(l))
		return shoal_fail(err, -ECANCELED, "interrupted");
	if (l->rc == 0 && at_end(l))
		return 0;
	if (l->rc == 0 && all_held(l))
		return shoal_fail(err, -EBUSY, "give batches back first: %u are held", l->nr_ring);
	rc = wait_for_batch(l, ret_batch, err);
	if (rc < 0)
		return rc;
	if (l->rc == 0 && *ret_batch)
		check_batch(l, *ret_batch);
	if (l->rc < 0)
		return shoal_fail(err, l->rc, "%s", l->err.msg);
	assert(*ret_batch); /* there is one, or an error */
	(*ret_batch)->state = BATCH_HELD;
	l->next_take++;
	count_delivered(l, *ret_batch);
	return 1;
}

int shoal_loader_next(struct shoal_loader *l, const struct shoal_batch **ret_batch,
		      struct shoal_err *err)
{
	struct load_batch *b = NULL;
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
		if (&l->ring[i].public == batch && l->ring[i].state == BATCH_HELD)
			l->ring[i].state = BATCH_FREE;
	if (l->reaping && !l->all_filled) { /* it can read more meanwhile */
		load_engine_wake(l->engine);
		l->reaping = false;
	}
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
}

/* ---- What was done ---- */

static struct shoal_latency summary(const struct load_histogram *h)
{
	struct shoal_latency s = { .p50 = load_histogram_at(h, 0.5),
				   .p90 = load_histogram_at(h, 0.9),
				   .p99 = load_histogram_at(h, 0.99),
				   .p999 = load_histogram_at(h, 0.999),
				   .max = load_histogram_at(h, 1) };

	for (uint32_t i = 0; i < LOAD_HISTOGRAM_PLACES; i++)
		s.nr += h->count[i];
	return s;
}

void shoal_loader_stats(const struct shoal_loader *loader, struct shoal_load_stats *ret_stats)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader; /* for its lock */

	pthread_mutex_lock(&l->lock);
	*ret_stats = l->stats;
	memcpy(ret_stats->sum_ids, l->sums.ids, sizeof(l->sums.ids));
	memcpy(ret_stats->sum_order, l->sums.order, sizeof(l->sums.order));
	ret_stats->pool_bytes = l->pool.len;
	ret_stats->latency = summary(&l->latency);
	ret_stats->open = summary(&l->open);
	ret_stats->read = summary(&l->read);
	ret_stats->engine = load_engine_name(l->engine);
	ret_stats->engine_detail = load_engine_detail(l->engine);
	pthread_mutex_unlock(&l->lock);
}

const struct shoal_order *load_order(const struct shoal_loader *l)
{
	return l->order;
}

const struct load_request *load_request_of(const struct shoal_batch *batch, size_t i)
{
	return &((const struct load_batch *)(const void *)batch)->slot[i].request;
}

void load_latency(const struct shoal_loader *loader, struct load_histogram *ret_latency)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader;

	pthread_mutex_lock(&l->lock);
	*ret_latency = l->latency;
	pthread_mutex_unlock(&l->lock);
}

void load_latency_parts(const struct shoal_loader *loader, struct load_histogram *ret_open,
			struct load_histogram *ret_read)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader;

	pthread_mutex_lock(&l->lock);
	*ret_open = l->open;
	*ret_read = l->read;
	pthread_mutex_unlock(&l->lock);
}

bool load_remote(const struct shoal_loader *l, struct load_remote *ret_remote)
{
	return load_engine_remote(l->engine, ret_remote);
}
