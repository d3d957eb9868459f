/*
 * A list of a bucket in the order of names, from several threads.
 *
 * The names are cut into intervals, in order. Each has a queue of entries that are listed and not
 * yet consumed. A thread lists an interval from its start; while others are idle, the store cuts
 * off intervals for them. The consumer takes from the first interval.
 *
 * Memory: a thread leaves an interval that is not the first once its queue holds `limits.interval`
 * entries; the interval is continued when it has become the first. That thread is then idle, so the
 * store cuts the intervals near the consumer into smaller ones, until they fit: threads work near
 * the consumer, whatever the size of the bucket. In the first interval the thread waits for the
 * consumer instead.
 *
 * A bucket of N keys is cut about log(N) times into as many intervals as there are threads, so the
 * number of entries in memory is at most threads * log(N) * limits.interval.
 *
 * The lock is taken inside the store's own locks (add_unit, nr_idle), so the store is never called
 * with it.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/name.h"
#include "base/queue.h"
#include "base/span.h"
#include "list/list.h"

#define BUCKET_LIST_THREADS     32u
#define BUCKET_LIST_THREADS_MAX 256u
#define BUCKET_WAIT_MS          100u

/* If the limit needs only a few pages, a second thread is useless. */
#define BUCKET_FEW 2000u

/*
 * Entries that were found together. Each is a varint with the name's length, the name, a varint
 * with the size plus one, and the ETag if the list has them.
 */
struct bucket_chunk {
	struct bucket_chunk *next;
	size_t nr, len;
	uint8_t bytes[];
};

struct bucket_name {
	size_t len;
	uint8_t bytes[SHOAL_NAME_MAX];
};

/* The names after `start`, up to the next interval's start. */
struct bucket_interval {
	struct bucket_interval *next;
	enum { INTERVAL_PENDING, INTERVAL_ACTIVE, INTERVAL_DONE } state;
	struct bucket_chunk *first, **last;
	size_t nr; /* entries in the chunks */
	struct bucket_name start;
	struct bucket_name at; /* the last name that was found, or start */
};

struct list_of_bucket {
	struct shoal_list base;
	struct store *store;
	struct shoal_list_options options;
	struct store_list_options ask;
	struct list_limits limits;
	bool can_cut;                 /* units are intervals, which can be left and continued */
	struct bucket_chunk *current; /* where the consumer is; only it uses this */
	struct span left;             /* of it */
	struct etag etag;             /* of the entry */
	pthread_mutex_t warn_lock;
	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t
		work; /* for idle threads: there is something to list, or the list is closed */
	pthread_cond_t
		room; /* for the thread of the first interval: the consumer took some entries */
	pthread_cond_t found; /* for the consumer */
	struct bucket_interval *first;
	bool has_end;
	struct bucket_name end; /* nothing after this name is listed */
	unsigned nr_idle, nr_threads, nr_wanted;
	int closing; /* also the stop flag of the threads' listings */
	int rc;      /* the first error of a thread */
	struct shoal_err err;
	pthread_t thread[BUCKET_LIST_THREADS_MAX];
};

/* ---- Intervals: all under the lock ---- */

static struct bucket_interval *interval_new(const void *after, size_t len)
{
	struct bucket_interval *v = malloc(sizeof(*v));

	if (!v || len > sizeof(v->start.bytes)) {
		free(v);
		return NULL;
	}
	v->next = NULL;
	v->state = INTERVAL_PENDING;
	v->first = NULL;
	v->last = &v->first;
	v->nr = 0;
	v->start.len = v->at.len = len;
	memcpy(v->start.bytes, after, len);
	memcpy(v->at.bytes, after, len);
	return v;
}

static void interval_free(struct bucket_interval *v)
{
	while (v->first) {
		struct bucket_chunk *c = v->first;

		v->first = c->next;
		free(c);
	}
	free(v);
}

/* Insert it after the interval that it was cut from. */
static void interval_insert(struct list_of_bucket *b, struct bucket_interval *v)
{
	struct bucket_interval **at = &b->first;

	while (*at &&
	       name_compare((*at)->start.bytes, (*at)->start.len, v->start.bytes, v->start.len) < 0)
		at = &(*at)->next;
	v->next = *at;
	*at = v;
}

/* Whether a thread may list more of it. */
static bool interval_has_room(const struct list_of_bucket *b, const struct bucket_interval *v)
{
	return v->nr < (v == b->first ? 4 : 1) * b->limits.interval;
}

static struct bucket_interval *bucket_next_interval(const struct list_of_bucket *b)
{
	struct bucket_interval *v = b->first;

	while (v && (v->state != INTERVAL_PENDING || !interval_has_room(b, v)))
		v = v->next;
	return v;
}

static bool bucket_is_done(const struct list_of_bucket *b)
{
	const struct bucket_interval *v = b->first;

	while (v && v->state == INTERVAL_DONE)
		v = v->next;
	return !v;
}

/* Write the unit of what remains of @v. Returns its length. */
static size_t bucket_unit(const struct list_of_bucket *b, const struct bucket_interval *v,
			  uint8_t *unit)
{
	const struct bucket_name *upto = v->next ? &v->next->start : &b->end;

	if (!v->next && !b->has_end)
		upto = NULL;
	if (v->at.len == 0 && !upto)
		return 0; /* all of it */
	return store_interval(b->store, (const char *)v->at.bytes, v->at.len,
			      upto ? (const char *)upto->bytes : NULL, upto ? upto->len : 0, unit);
}

/* ---- Listing an interval ---- */

struct bucket_listing {
	struct store_sink sink;
	struct list_of_bucket *bucket;
	struct bucket_interval *interval;
	bool left; /* it was left and is continued */
};

static size_t chunk_room(const struct store_entry *entries, size_t nr)
{
	size_t room = nr * (3 + 10 + sizeof(struct etag));

	for (size_t i = 0; i < nr; i++)
		room += entries[i].len;
	return room;
}

static struct bucket_chunk *chunk_new(const struct store_entry *entries, size_t nr, bool etags)
{
	struct bucket_chunk *c = malloc(sizeof(*c) + chunk_room(entries, nr)), *less;
	const struct etag none = etag_parse("", 0);
	uint8_t *p;

	if (!c)
		return NULL;
	p = c->bytes;
	for (size_t i = 0; i < nr; i++) {
		p = varint_put(p, entries[i].len);
		memcpy(p, entries[i].name, entries[i].len);
		p += entries[i].len;
		p = varint_put(p, entries[i].size + 1); /* unknown becomes 0 */
		if (etags) {
			memcpy(p, entries[i].etag ? entries[i].etag : &none, sizeof(none));
			p += sizeof(none);
		}
	}
	c->next = NULL;
	c->nr = nr;
	c->len = (size_t)(p - c->bytes);
	less = realloc(c, sizeof(*c) + c->len);
	return less ? less : c;
}

/* It is the first, and the consumer is slow. Under the lock. */
static void bucket_wait_for_room(struct list_of_bucket *b, const struct bucket_interval *v)
{
	while (v == b->first && !interval_has_room(b, v) && !b->closing)
		pthread_cond_wait(&b->room, &b->lock);
}

static int bucket_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
			struct shoal_err *err)
{
	struct bucket_listing *l = (struct bucket_listing *)sink;
	struct list_of_bucket *b = l->bucket;
	struct bucket_interval *v = l->interval;
	struct bucket_chunk *c = chunk_new(entries, nr, b->options.etags);
	int rc = 0;

	if (!c)
		return err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_lock(&b->lock);
	*v->last = c;
	v->last = &c->next;
	v->nr += nr;
	v->at.len = entries[nr - 1].len;
	memcpy(v->at.bytes, entries[nr - 1].name, v->at.len);
	if (v == b->first)
		pthread_cond_signal(&b->found);
	if (v == b->first || !b->can_cut)
		bucket_wait_for_room(b, v);
	else
		l->left = !interval_has_room(b, v);
	if (b->closing)
		rc = err_set(err, -ECANCELED, "interrupted");
	else if (l->left)
		rc = -EAGAIN;
	pthread_mutex_unlock(&b->lock);
	return rc;
}

/* A part of an interval was cut off. */
static int bucket_add_unit(struct store_sink *sink, const void *unit, size_t len,
			   struct shoal_err *err)
{
	struct list_of_bucket *b = ((struct bucket_listing *)sink)->bucket;
	struct bucket_interval *v = NULL;
	const char *after;
	size_t after_len;

	if (store_unit_start(b->store, unit, len, &after, &after_len))
		v = interval_new(after, after_len);
	if (!v)
		return err_set(err, -ENOMEM, "out of memory");
	pthread_mutex_lock(&b->lock);
	interval_insert(b, v);
	pthread_cond_signal(&b->work);
	pthread_mutex_unlock(&b->lock);
	return 0;
}

/* Idle threads for which there is nothing yet. */
static unsigned bucket_nr_idle(struct store_sink *sink)
{
	struct list_of_bucket *b = ((struct bucket_listing *)sink)->bucket;
	unsigned nr, pending = 0;

	if (!b->can_cut)
		return 0;
	pthread_mutex_lock(&b->lock);
	for (const struct bucket_interval *v = b->first; v; v = v->next)
		pending += v->state == INTERVAL_PENDING && interval_has_room(b, v);
	nr = b->nr_idle > pending ? b->nr_idle - pending : 0;
	pthread_mutex_unlock(&b->lock);
	return nr;
}

static int bucket_trouble(struct store_sink *sink, int rc, struct shoal_err *err)
{
	struct list_of_bucket *b = ((struct bucket_listing *)sink)->bucket;

	return list_trouble(&b->options, &b->warn_lock, rc, err);
}

static bool bucket_wanted(struct store_sink *sink, const char *name, size_t len, bool is_dir)
{
	return index_filter_wants(&((struct bucket_listing *)sink)->bucket->base.select.filter,
				  name, len, is_dir);
}

/* ---- Threads ---- */

/* List what remains of @l->interval. The lock is held on entry and on return. */
static void bucket_list_interval(struct bucket_listing *l, uint8_t *unit)
{
	struct list_of_bucket *b = l->bucket;
	struct bucket_interval *v = l->interval;
	struct shoal_err err = { "" };
	size_t len = bucket_unit(b, v, unit);
	int rc;

	v->state = INTERVAL_ACTIVE;
	l->left = false;
	pthread_mutex_unlock(&b->lock);
	rc = store_list(b->store, &b->ask, unit, len, &l->sink, &err);
	pthread_mutex_lock(&b->lock);
	v->state = l->left ? INTERVAL_PENDING : INTERVAL_DONE;
	if (rc < 0 && !l->left && b->rc == 0) {
		b->rc = rc;
		b->err = err;
	}
	if (b->rc < 0 || bucket_is_done(b))
		pthread_cond_broadcast(&b->work); /* idle threads end */
	pthread_cond_signal(&b->found);
}

static void *bucket_list_thread(void *arg)
{
	struct list_of_bucket *b = arg;
	struct bucket_listing l = { .sink = { .found = bucket_found,
					      .add_unit = bucket_add_unit,
					      .trouble = bucket_trouble,
					      .nr_idle = bucket_nr_idle,
					      .stop = &b->closing },
				    .bucket = b };
	uint8_t *unit = malloc(STORE_UNIT_MAX);

	if (b->base.select.filter.nr_include + b->base.select.filter.nr_exclude > 0)
		l.sink.wanted = bucket_wanted;
	pthread_mutex_lock(&b->lock);
	if (!unit && b->rc == 0) {
		b->rc = err_set(&b->err, -ENOMEM, "out of memory");
		pthread_cond_signal(&b->found);
	}
	while (unit && !b->closing && b->rc == 0 && !bucket_is_done(b)) {
		l.interval = bucket_next_interval(b);
		if (l.interval) {
			bucket_list_interval(&l, unit);
			continue;
		}
		b->nr_idle++;
		pthread_cond_wait(&b->work, &b->lock);
		b->nr_idle--;
	}
	pthread_mutex_unlock(&b->lock);
	if (l.sink.free_scratch)
		l.sink.free_scratch(l.sink.scratch);
	free(unit);
	return NULL;
}

static int bucket_start_threads(struct list_of_bucket *b, struct shoal_err *err)
{
	int rc = 0;

	while (rc == 0 && b->nr_threads < b->nr_wanted) {
		rc = thread_start(&b->thread[b->nr_threads], bucket_list_thread, b);
		b->nr_threads += rc == 0;
	}
	b->nr_wanted = 0;
	if (b->nr_threads == 0)
		return err_set_errno(err, rc, "cannot start a thread");
	return 0; /* the limit needs no more threads */
}

/* ---- The consumer ---- */

/* Wait until something is found, for a limited time. Under the lock. */
static int bucket_wait(struct list_of_bucket *b, struct shoal_err *err)
{
	struct timespec until = clock_time(clock_wall() + BUCKET_WAIT_MS * 1000000u);
	int rc;

	pthread_cond_timedwait(&b->found, &b->lock, &until);
	pthread_mutex_unlock(&b->lock); /* the user's function may take long */
	rc = list_check_stop(&b->base, err);
	pthread_mutex_lock(&b->lock);
	return rc;
}

/*
 * The first interval may have been left before, and may be continued now. Only one thread is woken:
 * waking all of them for each chunk would take longer than listing.
 */
static void bucket_wake_for_first(struct list_of_bucket *b)
{
	const struct bucket_interval *v = b->first;

	if (v && v->state == INTERVAL_PENDING && interval_has_room(b, v))
		pthread_cond_signal(&b->work);
}

/* The next chunk in order: 1, 0 at the end, or an error. Under the lock. */
static int bucket_next_chunk(struct list_of_bucket *b, struct shoal_err *err)
{
	struct bucket_interval *v;
	int rc;

	while ((v = b->first) != NULL) {
		if (v->first) {
			b->current = v->first;
			v->first = v->first->next;
			if (!v->first)
				v->last = &v->first;
			v->nr -= b->current->nr;
			pthread_cond_signal(&b->room);
			bucket_wake_for_first(b);
			return 1;
		}
		if (b->rc < 0)
			return err_set_as(err, b->rc, &b->err, "%s", b->err.msg);
		if (v->state == INTERVAL_DONE) {
			b->first = v->next;
			interval_free(v);
			bucket_wake_for_first(b);
			continue;
		}
		rc = bucket_wait(b, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int bucket_take_chunk(struct list_of_bucket *b, struct shoal_err *err)
{
	int rc = b->nr_wanted ? bucket_start_threads(b, err) : 0;

	free(b->current);
	b->current = NULL;
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&b->lock);
	rc = bucket_next_chunk(b, err);
	pthread_mutex_unlock(&b->lock);
	if (rc > 0)
		b->left = (struct span){ .p = b->current->bytes,
					 .end = b->current->bytes + b->current->len };
	return rc;
}

static int bucket_next(struct shoal_list *list, struct list_entry *e, struct shoal_err *err)
{
	struct list_of_bucket *b = (struct list_of_bucket *)list;
	int rc = 1;

	if (!b->current || span_left(&b->left) == 0)
		rc = bucket_take_chunk(b, err);
	if (rc <= 0)
		return rc;
	e->len = (size_t)span_varint(&b->left);
	e->name = span_bytes(&b->left, e->len);
	e->size = span_varint(&b->left) - 1;
	e->samples = 1;
	e->etag = NULL;
	if (b->options.etags) {
		memcpy(&b->etag, span_bytes(&b->left, sizeof(b->etag)), sizeof(b->etag));
		e->etag = etag_is_kept(&b->etag) ? &b->etag : NULL;
	}
	return 1;
}

/* ---- Opening and closing ---- */

static void bucket_close(struct shoal_list *list)
{
	struct list_of_bucket *b = (struct list_of_bucket *)list;

	pthread_mutex_lock(&b->lock);
	__atomic_store_n(&b->closing, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&b->work);
	pthread_cond_broadcast(&b->room);
	pthread_mutex_unlock(&b->lock);
	for (unsigned i = 0; i < b->nr_threads; i++)
		pthread_join(b->thread[i], NULL);
	while (b->first) {
		struct bucket_interval *v = b->first;

		b->first = v->next;
		interval_free(v);
	}
	free(b->current);
	store_close(b->store);
	pthread_cond_destroy(&b->work);
	pthread_cond_destroy(&b->room);
	pthread_cond_destroy(&b->found);
	pthread_mutex_destroy(&b->lock);
	pthread_mutex_destroy(&b->warn_lock);
}

static const struct list_ops bucket_ops = { .next = bucket_next, .close = bucket_close };

static unsigned bucket_threads(const struct list_of_bucket *b)
{
	uint64_t limit = b->options.select.limit;

	if (!b->can_cut || (limit && limit <= BUCKET_FEW))
		return 1;
	return (unsigned)u64_min(b->options.nr_threads ? b->options.nr_threads
						       : BUCKET_LIST_THREADS,
				 BUCKET_LIST_THREADS_MAX);
}

static void bucket_end_at(struct list_of_bucket *b, const char *name, size_t len)
{
	if (len > SHOAL_NAME_MAX ||
	    (b->has_end && name_compare(b->end.bytes, b->end.len, name, len) <= 0))
		return;
	b->has_end = true;
	b->end.len = len;
	memcpy(b->end.bytes, name, len);
}

/* The only interval at first: what the bounds and the shard allow. */
static int bucket_first_interval(struct list_of_bucket *b, struct shoal_err *err)
{
	const struct shoal_select *ask = &b->options.select;
	uint8_t *unit = malloc(STORE_UNIT_MAX);
	const char *after = "", *upto;
	size_t len = 0, upto_len;
	int rc = unit ? 0 : err_set(err, -ENOMEM, "out of memory");

	if (rc == 0 && b->options.nr_shards > 0)
		rc = store_shard(b->store, b->options.shard, b->options.nr_shards, b->options.stop,
				 unit, &len, err);
	if (rc == 0 && b->options.nr_shards > 0) {
		if (store_unit_end(b->store, unit, len, &upto, &upto_len))
			bucket_end_at(b, upto, upto_len);
		(void)store_unit_start(b->store, unit, len, &after, &len);
	}
	if (rc == 0 && ask->start_after && b->can_cut &&
	    name_compare(ask->start_after, strlen(ask->start_after), after, len) > 0) {
		after = ask->start_after;
		len = u64_min(strlen(after), SHOAL_NAME_MAX);
	}
	if (rc == 0 && ask->end_before && b->can_cut)
		bucket_end_at(b, ask->end_before, strlen(ask->end_before));
	if (rc == 0 && (!b->has_end || name_compare(after, len, b->end.bytes, b->end.len) < 0)) {
		b->first = interval_new(after, len);
		rc = b->first ? 0 : err_set(err, -ENOMEM, "out of memory");
	}
	free(unit);
	return rc;
}

int list_bucket_open(struct store *store, const struct shoal_list_options *options,
		     const struct list_limits *limits, struct shoal_list **ret_list,
		     struct shoal_err *err)
{
	struct list_of_bucket *b = calloc(1, sizeof(*b));
	uint8_t unit[16];
	int rc;

	if (!b) {
		store_close(store);
		return err_set(err, -ENOMEM, "out of memory");
	}
	b->store = store;
	b->options = *options;
	b->limits = *limits;
	b->ask =
		(struct store_list_options){ .sizes = !options->no_sizes, .etags = options->etags };
	b->can_cut = store_interval(store, "", 0, NULL, 0, unit) > 0;
	b->nr_wanted = bucket_threads(b);
	pthread_mutex_init(&b->lock, NULL);
	pthread_mutex_init(&b->warn_lock, NULL);
	pthread_cond_init(&b->work, NULL);
	pthread_cond_init(&b->room, NULL);
	pthread_cond_init(&b->found, NULL);
	b->base.stop = options->stop;
	b->base.info = (struct shoal_list_info){ .sizes = !options->no_sizes,
						 .etags = options->etags,
						 .samples_per_file = 1 };
	rc = list_init(&b->base, &bucket_ops, store->uri, &options->select, err);
	b->base.select.filtered = true;
	if (rc == 0)
		rc = bucket_first_interval(b, err);
	if (rc < 0)
		shoal_list_close(&b->base);
	else
		*ret_list = &b->base;
	return rc;
}
