/*
 * The caller's side: opening and closing, epochs, and taking and giving back batches. A thread
 * of the loader reads ahead (ahead.c). It fills a ring of batches, whose samples are read into
 * buffers of the pool (pool.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/queue.h"
#include "base/text.h"
#include "load/kept_files.h"
#include "load/loader_private.h"
#include "load/merge_reads.h"
#include "store/uri.h"

#define IN_FLIGHT 64u
#define PREFETCH  2u
#define STALL_MS  10000u

#define PREFETCH_MAX 65536u

#define KEPT_ALIGN (UINT64_C(2) << 20)

/* Size of a piece, unless a slot size is given. */
#define PIECE (UINT64_C(1) << 20)

/* ---- Opening and closing ---- */

/* The size of the catalog's largest sample, in bytes. */
static int loader_largest(const struct shoal_catalog *cat, uint64_t *ret_size,
			  struct shoal_err *err)
{
	struct shoal_catalog_info info;
	int rc;

	shoal_catalog_info(cat, &info);
	*ret_size = 0;
	if (info.nr_bytes == SHOAL_SIZE_UNKNOWN)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_SLOT, "the catalog has no sizes");
	rc = shoal_catalog_largest(cat, ret_size);
	if (rc < 0)
		return shoal_catalog_explain(cat, rc, err);
	if (info.extents)
		*ret_size = info.longest;
	/* The last record of a file includes the remainder, which may be larger in a smaller
	 * file. */
	else if (info.samples_per_file > 1)
		*ret_size = u64_min(*ret_size, *ret_size / info.samples_per_file +
						       (info.samples_per_file - 1));
	return 0;
}

/*
 * One entry per file that pieces in the ring, or the next ones, share: 8 bytes per slot. They
 * are used in turn, and batches are handed out in the same order: when an entry's turn comes
 * again, all its pieces have been read.
 */
static int take_files(struct shoal_loader *l, uint64_t nr)
{
	if (l->piece == UINT64_MAX)
		return l->sorted ? load_kept_init(l) : 0;
	l->nr_files = (uint32_t)u64_min(nr + 1, UINT32_MAX);
	l->files = calloc(l->nr_files, sizeof(*l->files));
	if (!l->files)
		return -ENOMEM;
	for (uint32_t i = 0; i < l->nr_files; i++)
		load_file_init(&l->files[i], 0);
	return 0;
}

/* The mean number of bytes of a sample, or piece. */
static uint64_t mean_bytes(const struct shoal_loader *l)
{
	uint64_t mean = l->options.object_size;
	struct shoal_catalog_info info;

	shoal_catalog_info(l->cat, &info);
	if (!mean && (!l->sizes || info.nr_samples == 0))
		return l->slot_bytes; /* the size is not known */
	if (!mean)
		mean = info.nr_bytes / info.nr_samples + (info.nr_bytes % info.nr_samples > 0);
	if (mean > l->piece) /* the number of pieces of a sample of that size */
		mean = mean / ((mean - 1) / l->piece + 1) + 1;
	return u64_min(mean, l->slot_bytes);
}

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The most bytes that may be reserved and not used. */
static uint64_t may_reserve(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	struct rlimit space;

	/* Other mappings need address space if it is limited. */
	if (getrlimit(RLIMIT_AS, &space) < 0 || space.rlim_cur != RLIM_INFINITY)
		return 0;
	return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/*
 * The caller may pin the pages of memory that was announced, and no sample may lie partly in it: so
 * all of it is kept, and the rest of a large batch has a mapping of its own.
 */
static void plan_announced(const struct shoal_load_options *options, struct load_pool_options *o)
{
	if (!options->memory_added && !options->memory_removed)
		return;
	o->added = options->memory_added;
	o->removed = options->memory_removed;
	o->self = options->self;
	if (o->limited)
		o->kept = o->len;
	else
		o->len = o->kept;
}

/*
 * The size of the pool. The kept part has room for the batches of the ring at their mean size,
 * but for no more than the existing samples. The range has room for their maximum size, up to
 * the machine's memory; or it is the given limit.
 */
static void plan_pool(struct shoal_loader *l, bool merged, struct load_pool_options *ret_options)
{
	const struct shoal_order_spec *spec = shoal_order_spec(l->order);
	uint64_t most = load_buffer_len(l->slot_bytes, l->anywhere),
		 nr = (uint64_t)l->nr_ring * l->together * spec->batch;
	uint64_t each = load_buffer_expected(mean_bytes(l), l->slot_bytes, l->anywhere);
	struct load_pool_options o = { .nr_batches = l->nr_ring };
	uint64_t ahead = (uint64_t)l->together * spec->batch;
	uint64_t limit = l->options.memory / LOAD_ALIGN * LOAD_ALIGN;

	if (l->together > 1)
		o.kept = times(l->nr_ring, load_merged_bytes(ahead, mean_bytes(l)));
	else if (l->piece == UINT64_MAX && spec->remainder != SHOAL_PAD)
		o.kept = times(u64_min(nr, spec->nr_samples), each);
	else
		o.kept = times(nr, each);
	o.limited = limit > 0;
	o.len = u64_min(limit ? limit : u64_max(o.kept, may_reserve()),
			times(times(nr, most), merged && !limit ? LOAD_MERGED_MEMORY : 1));
	if (o.kept < o.len &&
	    o.kept < SIZE_MAX / 2) /* huge pages are kept as a whole or not at all */
		o.kept = (o.kept + KEPT_ALIGN - 1) / KEPT_ALIGN * KEPT_ALIGN;
	o.kept = u64_min(o.kept, o.len);
	plan_announced(&l->options, &o);
	if (each == most || o.kept == times(nr, most)) { /* all buffers can have the maximum size */
		l->buffer_len = most;
		o.lane = l->together > 1 ? 0 : times(spec->batch, most);
	}
	*ret_options = o;
}

static int take_memory(struct shoal_loader *l, struct shoal_err *err)
{
	uint64_t batch = shoal_order_spec(l->order)->batch, room;
	uint64_t nr = (uint64_t)l->nr_ring * batch;
	struct load_pool_options po;
	struct shoal_catalog_info info;
	bool merged;
	int rc;

	if (batch > UINT32_MAX || nr > UINT32_MAX)
		return err_set(err, -EINVAL, "a batch of %" PRIu64 " samples is too large", batch);
	if (l->slot_bytes >= SIZE_MAX / 4)
		return err_set(err, -ENOMEM,
			       "a sample of %" PRIu64 " bytes is more than fits in memory: "
			       "lower the batch, the prefetch or the slot",
			       l->slot_bytes);
	shoal_catalog_info(l->cat, &info);
	l->anywhere = info.extents || info.samples_per_file != 1 || l->piece < LOAD_ALIGN;
	/* Samples of one file can be neighbours, unless they are whole files or synthetic. */
	merged = l->anywhere && l->sizes && l->piece == UINT64_MAX && !l->options.object_size;
	l->together = merged ? load_merge_steps(l, mean_bytes(l)) : 1;
	room = batch * l->together;
	nr = l->nr_ring * room;
	plan_pool(l, merged, &po);
	rc = load_pool_init(&l->pool, &po, err);
	if (rc < 0)
		return rc;
	l->ring = calloc(l->nr_ring, sizeof(*l->ring));
	l->samples = calloc(nr, sizeof(*l->samples));
	l->slots = calloc(nr, sizeof(*l->slots));
	l->parts = calloc((uint64_t)l->nr_ring * l->together, sizeof(*l->parts));
	l->cursor.ids = calloc(batch, sizeof(*l->cursor.ids));
	if (merged)
		rc = load_merge_init(l, room);
	/* Only the part that the names of a batch fill is touched and becomes memory. */
	l->names = malloc(nr * (SHOAL_NAME_MAX + 1));
	if (rc < 0 || !l->ring || !l->parts || !l->samples || !l->slots || !l->cursor.ids ||
	    !l->names || take_files(l, nr) < 0)
		return err_set(err, -ENOMEM, "out of memory");
	for (uint32_t i = 0; i < l->nr_ring; i++)
		l->ring[i] =
			(struct load_batch){ .part = l->parts + (size_t)i * l->together,
					     .sample = l->samples + i * room,
					     .slot = l->slots + i * room,
					     .names = l->names + i * room * (SHOAL_NAME_MAX + 1) };
	return 0;
}

int load_check_etags(const struct shoal_catalog *cat, const char *store, struct shoal_err *err)
{
	struct shoal_catalog_info info;

	shoal_catalog_info(cat, &info);
	if (!store_uri_traits(store ? store : info.root).etags)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_IF_MATCH,
				    "only objects in a bucket have ETags to compare");
	if (!info.etags)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_ETAGS,
				    "the catalog has no ETags to compare with");
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
					  .threads = l->options.threads,
					  .direct = l->options.direct,
					  .own_files = !l->files,
					  .mean_len = mean_bytes(l),
					  .pool = l->pool.bytes,
					  .pool_len = l->pool.is.kept };
	int rc;

	shoal_catalog_info(l->cat, &info);
	rc = store_open(l->options.store ? l->options.store : info.root, l->options.config,
			&l->store, err);
	if (rc < 0)
		return rc;
	l->options.config = NULL; /* it was lent, and the store has copied what it needs */
	eo.store = l->store;
	l->synthetic = l->store->traits.synthetic;
	if (l->options.object_size && !l->synthetic)
		return err_set(err, -EINVAL, "an object size is for the null store only");
	if (!l->sizes && !l->synthetic && info.samples_per_file != 1)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_SIZES,
				    "the catalog has no sizes, so the offsets of samples in "
				    "their files are unknown");
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

static int loader_check_options(const struct shoal_load_options *o, struct shoal_err *err)
{
	if (o->prefetch > PREFETCH_MAX)
		return err_set(err, -EINVAL, "a prefetch of %u batches: it must be 1 to %u",
			       o->prefetch, PREFETCH_MAX);
	if ((unsigned)o->engine > SHOAL_ENGINE_THREADS)
		return err_set(err, -EINVAL, "there is no engine %u", (unsigned)o->engine);
	if (o->threads > LOAD_THREADS_MAX)
		return err_set(err, -EINVAL, "%u threads: there must be 1 to %u", o->threads,
			       LOAD_THREADS_MAX);
	if (o->memory && o->memory < LOAD_ALIGN)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " bytes of memory hold no sample: there must be "
			       "%u at least",
			       o->memory, LOAD_ALIGN);
	return 0;
}

/* Determine the room per sample and the size of pieces. */
static int choose_slot(struct shoal_loader *l, struct shoal_err *err)
{
	int rc = 0;

	l->piece = UINT64_MAX;
	l->slot_bytes = l->options.slot ? l->options.slot : l->options.object_size;
	if (l->options.pieces && !l->sizes && !l->options.object_size)
		return err_set_hint(err, -EINVAL, SHOAL_HINT_SIZES,
				    "the catalog has no sizes, so the number of pieces of a "
				    "sample is unknown");
	if (l->slot_bytes == 0)
		rc = loader_largest(l->cat, &l->slot_bytes, err);
	if (rc < 0 || !l->options.pieces)
		return rc;
	if (!l->options.slot)
		l->slot_bytes = u64_min(l->slot_bytes, PIECE);
	/* A piece ends where the next begins: direct reads need that to be a block boundary. */
	l->piece = l->slot_bytes < LOAD_ALIGN ? l->slot_bytes
					      : l->slot_bytes / LOAD_ALIGN * LOAD_ALIGN;
	l->piece = u64_max(l->piece, 1);
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
		return err_set(err, -EINVAL,
			       "the order has %" PRIu64 " samples from %" PRIu64
			       " on, but the catalog has %" PRIu64,
			       spec->nr_samples, l->options.first, info.nr_samples);
	if (!l->options.part && (l->options.first || spec->nr_samples != info.nr_samples))
		return err_set(err, -EINVAL,
			       "the order has %" PRIu64 " samples, but the catalog has %" PRIu64,
			       spec->nr_samples, info.nr_samples);
	if (l->rank >= spec->nr_ranks)
		return err_set(err, -EINVAL, "there is no rank %" PRIu64 " of %" PRIu64, l->rank,
			       spec->nr_ranks);
	rc = loader_check_options(&l->options, err);
	if (rc == 0 && l->options.if_match)
		rc = load_check_etags(l->cat, l->options.store, err);
	if (rc == 0)
		rc = shoal_order_new(spec, 0, &l->order, err);
	if (rc == 0)
		rc = choose_slot(l, err);
	return rc < 0 ? rc : take_memory(l, err);
}

/*
 * Start the loader's thread, which waits for the lock until there is an engine. It comes first:
 * where the number of threads is limited, an engine takes all that it can get.
 */
static int start_reading(struct shoal_loader *l, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = thread_start(&l->thread, load_ahead, l);
	l->started = rc == 0;
	rc = rc < 0 ? err_set_errno(err, rc, "cannot start the loader") : open_engine(l, err);
	l->closing = rc < 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int shoal_loader_open(const struct shoal_catalog *cat, const struct shoal_order_spec *spec,
		      uint64_t rank, const struct shoal_load_options *options,
		      struct shoal_loader **ret_loader, struct shoal_err *err)
{
	struct shoal_loader *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return err_set(err, -ENOMEM, "out of memory");
	l->cat = cat;
	l->rank = rank;
	l->all_filled = true; /* there is no epoch yet */
	set_defaults(l, options);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	cond_init_steady(&l->news);
	rc = open_parts(l, spec, err);
	if (rc == 0)
		rc = start_reading(l, err);
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
	store_close(l->store);
	shoal_order_free(l->order);
	for (uint32_t i = 0; l->ring && i < l->nr_ring; i++)
		load_pool_give(&l->pool, &l->ring[i].room);
	load_pool_release(&l->pool);
	free(l->ring);
	free(l->parts);
	free(l->samples);
	free(l->slots);
	free(l->names);
	free(l->files);
	free(l->cursor.ids);
	free(l->sorted);
	load_kept_free(l);
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->work);
	pthread_cond_destroy(&l->news);
	free(l);
	return NULL;
}

/* ---- Epochs and batches ---- */

/* With the lock held, which it releases meanwhile: wait for the thread, for a limited time, because
 * a signal may request a stop or the caller may have to poll. */
static int loader_wait(struct shoal_loader *l, struct shoal_err *err)
{
	struct timespec until = clock_time(clock_now() + 100000000u);
	int rc = 0;

	if (stop_requested(l->options.stop))
		return err_set(err, -ECANCELED, "interrupted");
	if (pthread_cond_timedwait(&l->news, &l->lock, &until) == ETIMEDOUT && l->options.waiting) {
		pthread_mutex_unlock(&l->lock);
		rc = l->options.waiting(l->options.self, err);
		pthread_mutex_lock(&l->lock);
	}
	return rc < 0 ? rc : 0;
}

/* With the lock held: the order that was opened is that of epoch 0; `consumed` belongs to the first
 * epoch begun. */
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
	if (l->running == 0) /* also if an earlier request for an epoch was interrupted */
		rc = first_order(l, epoch, err);
	if (rc == 0) {
		l->epoch = epoch;
		l->wanted++;
		l->late = false;
		pthread_cond_broadcast(&l->work);
	}
	while (rc == 0 && l->running != l->wanted && !l->broken && !l->late)
		rc = loader_wait(l, err);
	if (rc == 0 && l->late)
		rc = err_set_as(err, -ETIMEDOUT, &l->err, "%s", l->err.msg);
	if (rc == 0 && l->broken)
		rc = err_set_errno(err, l->broken, "the reading engine failed");
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* With the lock held: count a batch that lacks a sample. */
static void count_error(struct shoal_loader *l, const struct load_slot *s,
			struct shoal_err *ret_err)
{
	uint64_t nr = l->stats.nr_errors++;
	struct shoal_err why = { "" };
	size_t room = sizeof(l->stats.first_errors[0]);

	if (l->options.skip_errors && nr >= ARRAY_LEN(l->stats.first_errors))
		return;
	load_judge(l, s, &why);
	(void)err_set_as(ret_err, 0, &why, "sample %" PRIu64 ": %s", s->batch->sample[s->index].id,
			 why.msg);
	if (nr < ARRAY_LEN(l->stats.first_errors) &&
	    (size_t)snprintf(l->stats.first_errors[nr], room, "%s", ret_err->msg) >= room)
		text_mark_truncated(l->stats.first_errors[nr]);
}

/* With the lock held. */
static void count_delivered(struct shoal_loader *l, const struct load_part *p)
{
	const struct shoal_order_spec *spec = shoal_order_spec(l->order);
	uint64_t first = spec->consumed + (p->public.step * spec->nr_ranks + l->rank) * spec->batch;
	struct shoal_err err;

	for (size_t i = 0; i < p->public.nr; i++) {
		const struct shoal_sample *s = &p->public.sample[i];
		const struct load_slot *slot = &p->batch->slot[p->first + i];

		if (l->sizes || l->options.object_size)
			l->stats.bytes_asked += slot->request.len;
		if (slot->off == 0)
			l->spoiled = false;
		if (s->error && !l->spoiled)
			count_error(l, slot, &err);
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

/* With the lock held: whether the next batch cannot get memory. If it never will, the epoch ends
 * here; otherwise the batches that the caller holds have that memory. */
static int check_memory(struct shoal_loader *l, struct shoal_err *err)
{
	if (!l->blocked || l->next_take != l->next_fill)
		return 0;
	if (l->unfit < 0) {
		load_end_epoch(l, l->unfit, &l->unfit_err);
		return 0;
	}
	return err_set(err, -EBUSY,
		       "give batches back first: %u are held, and the memory has no room for "
		       "another",
		       l->nr_held);
}

/* With the lock held: whether all batches of the epoch were taken. */
static bool at_end(const struct shoal_loader *l)
{
	return l->all_filled && l->next_take == l->next_fill;
}

/* With the lock held: wait until the next batch is ready, the epoch ended early, or an error
 * occurred; or, without a batch, until other threads have taken the last one. */
static int wait_for_batch(struct shoal_loader *l, struct load_batch **ret_batch,
			  struct shoal_err *err)
{
	uint64_t start = 0;
	int rc = 0;

	*ret_batch = NULL;
	while (rc == 0 && l->rc == 0 && !at_end(l)) {
		*ret_batch = load_batch_of(l, l->next_take);
		if (*ret_batch && (*ret_batch)->state == BATCH_READY)
			break;
		rc = check_memory(l, err);
		if (rc < 0 || l->rc < 0)
			break;
		start = start ? start : clock_now();
		*ret_batch = NULL; /* another thread may take it meanwhile */
		rc = loader_wait(l, err);
	}
	l->stats.wait_ns += start ? clock_now() - start : 0;
	return rc;
}

/* With the lock held: the first error of the batch, in the order's sequence, if errors are not
 * skipped. */
static void check_batch(struct shoal_loader *l, const struct load_part *p)
{
	struct shoal_err err = { "" };

	for (size_t i = 0; i < p->public.nr && l->rc == 0 && !l->options.skip_errors; i++) {
		if (!p->public.sample[i].error)
			continue;
		count_error(l, &p->batch->slot[p->first + i], &err);
		load_end_epoch(l, p->public.sample[i].error, &err);
	}
}

/* With the lock held, in an epoch. */
static int take_next(struct shoal_loader *l, const struct shoal_batch **ret_batch,
		     struct shoal_err *err)
{
	struct load_batch *b = NULL;
	struct load_part *p;
	int rc = 0;

	if (stop_requested(l->options.stop))
		return err_set(err, -ECANCELED, "interrupted");
	/* Then no batch of the ring can become ready, if each has a part that is held. */
	if (l->rc == 0 && !at_end(l) && l->nr_held == l->nr_ring)
		return err_set(err, -EBUSY, "all %u batches are held: give some back first",
			       l->nr_ring);
	rc = wait_for_batch(l, &b, err);
	if (rc < 0)
		return rc;
	if (l->rc == 0 && b)
		check_batch(l, &b->part[b->nr_taken]);
	if (l->rc < 0)
		return err_set_as(err, l->rc, &l->err, "%s", l->err.msg);
	if (!b)
		return 0; /* the epoch has ended */
	p = &b->part[b->nr_taken++];
	p->held = true;
	l->nr_held++;
	if (b->nr_taken == b->nr_parts) {
		b->state = BATCH_HELD;
		l->next_take++;
	}
	if (at_end(l))
		pthread_cond_broadcast(&l->news);
	count_delivered(l, p);
	*ret_batch = &p->public;
	return 1;
}

int shoal_loader_next(struct shoal_loader *l, const struct shoal_batch **ret_batch,
		      struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	if (l->running == 0 || l->running != l->wanted)
		rc = err_set(err, -EINVAL, "no epoch was begun");
	else
		rc = take_next(l, ret_batch, err);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

void shoal_loader_give_back(struct shoal_loader *l, const struct shoal_batch *batch)
{
	uint64_t nr = (uint64_t)l->nr_ring * l->together;

	pthread_mutex_lock(&l->lock);
	for (uint64_t i = 0; i < nr; i++) {
		struct load_part *p = &l->parts[i];

		if (&p->public != batch || !p->held)
			continue;
		p->held = false;
		l->nr_held--;
		if (++p->batch->nr_given == p->batch->nr_parts) {
			p->batch->state = BATCH_FREE;
			l->freed = true;
			l->blocked = false;
		}
	}
	if (l->reaping && !l->all_filled) { /* the thread can read more meanwhile */
		load_engine_wake(l->engine);
		l->reaping = false;
	}
	pthread_cond_broadcast(&l->work);
	pthread_mutex_unlock(&l->lock);
}

void load_exceed(struct shoal_loader *l)
{
	pthread_mutex_lock(&l->lock);
	l->beyond = true;
	l->blocked = false;
	pthread_cond_broadcast(&l->work); /* nothing is in flight while a batch lacks memory */
	pthread_mutex_unlock(&l->lock);
}

/* ---- Statistics ---- */

static struct shoal_latency summary(const struct histogram *h)
{
	struct shoal_latency s = { .p50 = histogram_at(h, 0.5),
				   .p90 = histogram_at(h, 0.9),
				   .p99 = histogram_at(h, 0.99),
				   .p999 = histogram_at(h, 0.999),
				   .max = histogram_at(h, 1) };

	for (uint32_t i = 0; i < HISTOGRAM_PLACES; i++)
		s.nr += h->count[i];
	return s;
}

/* With the lock held. */
static void loader_count(const struct shoal_loader *l, struct shoal_load_stats *ret_stats)
{
	*ret_stats = l->stats;
	memcpy(ret_stats->sum_ids, l->sums.ids, sizeof(l->sums.ids));
	memcpy(ret_stats->sum_order, l->sums.order, sizeof(l->sums.order));
	ret_stats->pool_bytes = l->pool.peak;
	ret_stats->pool_now = l->pool.now;
	ret_stats->engine = load_engine_name(l->engine);
	ret_stats->engine_detail = "";
}

void load_counts(const struct shoal_loader *loader, struct shoal_load_stats *ret_stats)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader; /* for its lock */

	pthread_mutex_lock(&l->lock);
	loader_count(l, ret_stats);
	pthread_mutex_unlock(&l->lock);
}

void shoal_loader_stats(const struct shoal_loader *loader, struct shoal_load_stats *ret_stats)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader; /* for its lock */

	pthread_mutex_lock(&l->lock);
	loader_count(l, ret_stats);
	ret_stats->latency = summary(&l->latency);
	ret_stats->open = summary(&l->open);
	ret_stats->read = summary(&l->read);
	load_engine_describe(l->engine, l->detail);
	ret_stats->engine_detail = l->detail;
	pthread_mutex_unlock(&l->lock);
}

const struct shoal_load_options *load_options(const struct shoal_loader *l)
{
	return &l->options;
}

const struct shoal_order *load_order(const struct shoal_loader *l)
{
	return l->order;
}

const struct load_request *load_request_of(const struct shoal_batch *batch, size_t i)
{
	const struct load_part *p = (const void *)batch;

	return &p->batch->slot[p->first + i].request;
}

void load_latency(const struct shoal_loader *loader, struct histogram *ret_latency)
{
	struct shoal_loader *l = (struct shoal_loader *)(uintptr_t)loader;

	pthread_mutex_lock(&l->lock);
	*ret_latency = l->latency;
	pthread_mutex_unlock(&l->lock);
}

void load_latency_parts(const struct shoal_loader *loader, struct histogram *ret_open,
			struct histogram *ret_read)
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
