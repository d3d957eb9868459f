#include "index/walk.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/queue.h"
#include "index/pace.h"
#include "index/record.h"
#include "open/own.h"

/* Memory for waiting units. More go to a file. */
#define UNITS_BYTES (4u << 20)

/* Limit of remembered handoffs. Beyond it, none is made for a while. */
#define HANDOFF_BYTES (4u << 20)

/*
 * Names that waited for in-order delivery and go to the sorter after all, before the owner checks
 * whether it is to stop.
 */
#define REST_AT_ONCE 16384u

/* Entries delivered together, unless they are all of a directory: fewer stay in the cache. */
#define FOUND_STEP 256u

/* What a store found, in the sorter's form. */
struct found {
	struct sort_entry entry[STORE_FOUND_MAX];
	uint8_t payload[STORE_FOUND_MAX * INDEX_RECORD_MAX];
};
_Static_assert(STORE_FOUND_MAX <= SORTER_GROUP_MAX, "the sorter takes it at once");

/* A thread: its sink, and its current unit. With the store's buffers, its own and the stack this
 * is what job.c counts per thread. */
struct walker {
	struct store_sink sink; /* first member: the store passes it back */
	struct index_walk *walk;
	pthread_t thread;
	size_t unit_len;
	bool at_work;
	struct found *found; /* NULL before something is found */
	uint8_t unit[STORE_UNIT_MAX];
};

struct index_walk {
	struct index_walk_options options;
	bool ranges;          /* units are intervals of names, whose pages come in order */
	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t work;  /* there are units, or the walk ends */
	pthread_cond_t news;  /* for the owner */
	struct index_queue units;
	struct index_sequence sequence; /* signalled when something can be delivered in order */
	struct index_walk_state state;
	unsigned nr_at_work;
	struct index_handoffs handoffs;
	bool idle_elsewhere; /* other ranks are idle */
	unsigned nr_wanted;  /* idle threads, if no unit waits; sinks read it without the lock */
	bool ending;
	int stop; /* what the store reads; atomic */
	int rc;   /* the first error, and its message */
	struct shoal_err err;
	unsigned nr_started;
	struct index_pace pace; /* used by the owner */
	struct walker *walker;
};

/* ---- What the store calls ---- */

static struct walker *walker_of(struct store_sink *sink)
{
	return (struct walker *)(void *)sink;
}

/* With the lock held, after a change of its inputs. */
static void set_nr_wanted(struct index_walk *w)
{
	/* Other ranks are assumed to have as many threads as this one. */
	uint64_t idle = w->nr_started > w->nr_at_work ? w->nr_started - w->nr_at_work : 0;
	uint64_t elsewhere = w->idle_elsewhere ? u64_max(1, w->nr_started) : 0;
	uint64_t want = w->units.nr == 0 ? idle + elsewhere : 0;

	__atomic_store_n(&w->nr_wanted, (unsigned)want, __ATOMIC_RELAXED);
}

static unsigned walk_number_of(const struct walker *me)
{
	return (unsigned)(me - me->walk->walker);
}

/* Whether entries are still delivered in order. Call without the lock. */
static bool is_in_order(const struct index_walk *w)
{
	return w->options.take_next && !index_sequence_is_over(&w->sequence);
}

/* With the lock held: there may be more units than before. */
static void announce_units(struct index_walk *w)
{
	set_nr_wanted(w);
	if (w->units.nr > 0 && w->nr_at_work < w->nr_started)
		pthread_cond_broadcast(&w->work);
}

/*
 * In-order delivery has ended: directories need no longer wait for the end of their parent, which
 * may be large. Call without the lock.
 */
static int release_units(struct walker *me, struct shoal_err *err)
{
	struct index_walk *w = me->walk;
	int rc;

	if (!w->options.take_next || !index_sequence_holds_units(&w->sequence, walk_number_of(me)))
		return 0;
	pthread_mutex_lock(&w->lock);
	rc = index_sequence_release_units(&w->sequence, walk_number_of(me), &w->units, err);
	announce_units(w);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* Convert entries to records, without files that Shoal wrote. Returns how many, or an error. */
static int convert(struct walker *me, const struct store_entry *entries, size_t nr,
		   struct shoal_err *err)
{
	/* In registers: what is written may alias the options. */
	const char *own = me->walk->options.own_name;
	size_t own_len = own ? strlen(own) : 0;
	uint64_t samples = me->walk->options.samples;
	struct sort_entry *kept;
	uint8_t *to;

	if (!me->found)
		me->found = malloc(sizeof(*me->found));
	if (!me->found)
		return err_set(err, -ENOMEM, "out of memory");
	kept = me->found->entry;
	to = me->found->payload;
	for (const struct store_entry *e = entries; e < entries + nr; e++) {
		struct index_record r = { .size = e->size, .samples = samples, .etag = e->etag };
		size_t len;

		if (open_is_own(me->walk->options.store, e->name, e->len) ||
		    (own_len && own_len == e->len && memcmp(own, e->name, own_len) == 0))
			continue;
		len = index_record_put(&r, to);
		*kept++ = (struct sort_entry){ .name = (const uint8_t *)e->name,
					       .len = e->len,
					       .payload = to,
					       .payload_len = len };
		to += len;
	}
	return (int)(kept - me->found->entry);
}

/* Keep entries until their turn, or add them to the sorter. */
static int keep_or_add(struct walker *me, const struct sort_entry *entries, size_t nr, bool whole,
		       struct shoal_err *err)
{
	struct index_walk *w = me->walk;
	int rc;

	if (is_in_order(w) && index_sequence_found(&w->sequence, walk_number_of(me), entries, nr))
		return 0;
	rc = release_units(me, err);
	return rc < 0 ? rc
		      : w->options.take(w->options.self, walk_number_of(me), entries, nr, whole,
					err);
}

/* With the lock held. */
static void count_found(struct index_walk *w, const void *last_name, size_t len, uint64_t nr)
{
	size_t shown = (size_t)u64_min(len, sizeof(w->state.where) - 1);

	memcpy(w->state.where, last_name, shown);
	w->state.where[shown] = '\0';
	w->state.nr_names += nr;
}

int index_walk_add(struct store_sink *sink, const struct sort_entry *entries, size_t nr,
		   uint64_t nr_names, struct shoal_err *err)
{
	struct walker *me = walker_of(sink);
	int rc = keep_or_add(me, entries, nr, /* whole= */ false, err);

	pthread_mutex_lock(&me->walk->lock);
	count_found(me->walk, entries[nr - 1].name, entries[nr - 1].len, nr_names);
	pthread_mutex_unlock(&me->walk->lock);
	return rc;
}

static int hand_on(struct index_walk *w, struct shoal_err *err);

/* With the lock held: what was found of an interval now waits for delivery or, if that has
 * ended, goes to the sorter. */
static int put_page(struct walker *me, struct shoal_err *err)
{
	struct index_walk *w = me->walk;
	int rc;

	index_sequence_put(&w->sequence, walk_number_of(me));
	rc = hand_on(w, err);
	if (rc < 0 || !index_sequence_is_over(&w->sequence) || w->sequence.busy)
		return rc;
	return index_sequence_rest(&w->sequence, SIZE_MAX, w->options.take, w->options.self, err);
}

static int sink_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		      struct shoal_err *err)
{
	struct walker *me = walker_of(sink);
	struct index_walk *w = me->walk;
	const struct store_entry *last = &entries[nr - 1];
	size_t step = sink->whole ? nr : FOUND_STEP;
	bool page = w->ranges && w->options.take_next; /* all entries up to its last name */
	int rc = 0;

	for (size_t i = 0; i < nr && rc == 0; i += step) {
		rc = convert(me, entries + i, (size_t)u64_min(step, nr - i), err);
		if (rc >= 0)
			rc = keep_or_add(me, me->found->entry, (size_t)rc, sink->whole, err);
	}
	if (rc == 0 && page)
		rc = index_sequence_sort(&w->sequence, walk_number_of(me), err);
	pthread_mutex_lock(&w->lock);
	count_found(w, last->name, last->len, nr);
	if (rc == 0 && page)
		rc = put_page(me, err);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static int sink_add_unit(struct store_sink *sink, const void *unit, size_t len,
			 struct shoal_err *err)
{
	struct walker *me = walker_of(sink);
	struct index_walk *w = me->walk;
	int rc;

	if (is_in_order(w) && !w->ranges &&
	    index_sequence_more(&w->sequence, walk_number_of(me), unit, len))
		return 0;
	rc = release_units(me, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&w->lock);
	if (!w->ranges || !is_in_order(w) ||
	    !index_sequence_insert(&w->sequence, &w->units, unit, len))
		rc = index_queue_push(&w->units, unit, len, err);
	set_nr_wanted(w);
	if (w->nr_at_work < w->nr_started)
		pthread_cond_signal(&w->work);
	if (w->idle_elsewhere)
		pthread_cond_signal(&w->news);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static int sink_trouble(struct store_sink *sink, int rc, struct shoal_err *words)
{
	struct index_walk *w = walker_of(sink)->walk;

	/*
	 * Running out of a resource is not the directory's fault: the same would happen to others.
	 */
	if (rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM)
		return rc;
	err_hint(words, SHOAL_HINT_KEEP_GOING, 0);
	if (!w->options.keep_going)
		return rc;
	pthread_mutex_lock(&w->lock);
	w->state.nr_trouble++;
	if (w->options.trouble)
		w->options.trouble(w->options.self, words->msg);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

static void sink_remaining(struct store_sink *sink, const void *unit, size_t len)
{
	struct walker *me = walker_of(sink);

	pthread_mutex_lock(&me->walk->lock);
	memcpy(me->unit, unit, len);
	me->unit_len = len;
	me->walk->state.nr_steps++;
	if (me->walk->options.take_next)
		index_sequence_begin(&me->walk->sequence, walk_number_of(me), me->unit, len);
	pthread_mutex_unlock(&me->walk->lock);
}

static unsigned sink_nr_idle(struct store_sink *sink)
{
	return __atomic_load_n(&walker_of(sink)->walk->nr_wanted, __ATOMIC_RELAXED);
}

static bool sink_wanted(struct store_sink *sink, const char *name, size_t len, bool is_dir)
{
	const struct index_walk_options *o = &walker_of(sink)->walk->options;

	return o->wanted(o->self, name, len, is_dir);
}

static int sink_is_cached(struct store_sink *sink, const struct store_dir *dir,
			  struct shoal_err *err)
{
	const struct index_walk_options *o = &walker_of(sink)->walk->options;

	return o->known(o->self, sink, dir, err);
}

/* ---- A thread ---- */

/* With the lock held. */
static void end_with(struct index_walk *w, int rc, const struct shoal_err *err)
{
	if (w->rc == 0) {
		w->rc = rc;
		w->err = *err;
	}
	w->ending = true;
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&w->work);
	pthread_cond_signal(&w->news);
}

/* With the lock held: a unit to work on, or false at the end. */
static bool next_unit(struct index_walk *w, struct walker *me)
{
	struct shoal_err err = { "" };
	int rc;

	while (!w->ending && (w->units.nr == 0 || index_sequence_is_behind(&w->sequence)))
		pthread_cond_wait(&w->work, &w->lock);
	if (w->ending)
		return false;
	rc = index_queue_pop(&w->units, me->unit, &me->unit_len, &err);
	if (rc < 0) {
		end_with(w, rc, &err);
		return false;
	}
	if (w->options.take_next)
		index_sequence_begin(&w->sequence, walk_number_of(me), me->unit, me->unit_len);
	me->at_work = true;
	w->nr_at_work++;
	w->state.nr_units++;
	set_nr_wanted(w);
	return true;
}

/* With the lock held, which it releases from time to time: deliver what is next. */
static int hand_on(struct index_walk *w, struct shoal_err *err)
{
	struct index_waiting *next;
	const uint8_t *to;
	int rc = 0;

	if (w->sequence.busy) /* the delivering thread will see what has come */
		return 0;
	w->sequence.busy = true;
	/* If the walk ends early the entries are not wanted any more, and many may wait. */
	while (rc == 0 && !w->ending &&
	       (next = index_sequence_next(&w->sequence, &w->units, &to)) != NULL) {
		pthread_mutex_unlock(&w->lock);
		rc = index_sequence_hand_on(&w->sequence, next, to, err);
		pthread_mutex_lock(&w->lock);
		index_sequence_give_back(&w->sequence, next);
		if (w->nr_at_work < w->nr_started && !index_sequence_is_behind(&w->sequence))
			pthread_cond_signal(&w->work); /* there is room for one more */
	}
	w->sequence.busy = false;
	announce_units(w); /* for threads that waited for this one */
	return rc;
}

/* With the lock held: what was found in the unit replaces it. */
static int end_in_order(struct index_walk *w, struct walker *me, int rc, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int ended = index_sequence_end(&w->sequence, walk_number_of(me), &w->units, &why);

	if (rc == 0 && ended < 0)
		return err_set_as(err, ended, &why, "%s", why.msg);
	if (rc < 0)
		return rc;
	announce_units(w);
	return hand_on(w, err);
}

static void *walk_thread(void *arg)
{
	struct walker *me = arg;
	struct index_walk *w = me->walk;

	pthread_mutex_lock(&w->lock);
	while (next_unit(w, me)) {
		struct shoal_err err = { "" };
		int rc;

		pthread_mutex_unlock(&w->lock);
		rc = store_list(w->options.store, &w->options.list, me->unit, me->unit_len,
				&me->sink, &err);
		if (rc == 0 && w->options.take_next)
			rc = index_sequence_sort(&w->sequence, walk_number_of(me), &err);
		pthread_mutex_lock(&w->lock);
		if (w->options.take_next)
			rc = end_in_order(w, me, rc, &err);
		me->at_work = rc < 0; /* still to be listed: a checkpoint must include it */
		w->nr_at_work--;
		set_nr_wanted(w);
		for (int i = 0; i < STORE_NR_SKIPS; i++) {
			w->state.skipped[i] += me->sink.skipped[i];
			me->sink.skipped[i] = 0;
		}
		w->state.nr_directories += me->sink.nr_directories;
		w->state.nr_steps += me->sink.nr_directories;
		w->state.nr_foreign += me->sink.nr_foreign;
		me->sink.nr_directories = me->sink.nr_foreign = 0;
		if (rc < 0)
			end_with(w, rc, &err);
		if (w->nr_at_work == 0 && w->units.nr == 0)
			pthread_cond_signal(&w->news);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

/* ---- The owner ---- */

static int walk_start_thread(struct index_walk *w)
{
	struct walker *me = &w->walker[w->nr_started];
	int rc;

	me->walk = w;
	me->sink = (struct store_sink){ .found = sink_found,
					.add_unit = sink_add_unit,
					.trouble = sink_trouble,
					.remaining = w->options.take_next && !w->ranges
							     ? NULL
							     : sink_remaining,
					.nr_idle = sink_nr_idle,
					.wanted = w->options.wanted ? sink_wanted : NULL,
					.is_cached = w->options.known ? sink_is_cached : NULL,
					.stop = &w->stop };
	rc = thread_start(&me->thread, walk_thread, me);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&w->lock);
	w->nr_started++;
	set_nr_wanted(w);    /* the first may be working on the only unit */
	if (w->units.nr > 0) /* the thread that found them knew no thread to wake */
		pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

/* Start threads until there are @nr. Fewer are enough, but at least one is needed. */
static int start_threads(struct index_walk *w, unsigned nr, struct shoal_err *err)
{
	while (w->nr_started < nr) {
		int rc = walk_start_thread(w);

		if (rc < 0 && w->nr_started == 0)
			return rc == -EAGAIN
				       ? err_set(err, rc,
						 "cannot start listing: the system refuses another thread: raise "
						 "its limit (ulimit -u)")
				       : err_set_errno(err, rc, "cannot start listing");
		if (rc < 0)
			w->options.nr_threads = nr = w->nr_started;
	}
	return 0;
}

static void start_more(struct index_walk *w)
{
	uint64_t used = 0;
	bool at_work;

	if (!index_pace_is_due(&w->pace))
		return;
	for (unsigned i = 0; i < w->nr_started; i++)
		used += index_pace_used(w->walker[i].thread);
	pthread_mutex_lock(&w->lock);
	at_work = w->nr_at_work == w->nr_started && !w->ending;
	pthread_mutex_unlock(&w->lock);
	if (index_pace_wants_more(&w->pace, used, at_work))
		(void)!start_threads(w, w->options.nr_threads, NULL);
}

static int start_in_order(struct index_walk *w, struct shoal_err *err)
{
	w->sequence = (struct index_sequence){ .store = w->options.store,
					       .take = w->options.take_next,
					       .see = w->options.see_next,
					       .take_pack = w->options.take_next_pack,
					       .self = w->options.self,
					       .room = w->options.next_memory,
					       .nr_threads = w->options.nr_threads };
	return index_sequence_init(&w->sequence) ? 0 : err_set(err, -ENOMEM, "out of memory");
}

int index_walk_start(const struct index_walk_options *options, bool with_all,
		     struct index_walk **ret_walk, struct shoal_err *err)
{
	struct index_walk *w = calloc(1, sizeof(*w));
	unsigned first;
	int rc;

	if (!w)
		return err_set(err, -ENOMEM, "out of memory");
	w->options = *options;
	w->units.fd = -1;
	w->ranges = !store_has_directories(options->store);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->work, NULL);
	cond_init_steady(&w->news);
	w->walker = calloc(options->nr_threads, sizeof(*w->walker));
	rc = w->walker ? index_queue_init(&w->units, UNITS_BYTES, options->tmp_dir, err)
		       : err_set(err, -ENOMEM, "out of memory");
	if (rc == 0 && options->take_next)
		rc = start_in_order(w, err);
	if (rc == 0 && with_all)
		rc = index_queue_push(&w->units, "", 0, err);
	index_pace_start(&w->pace, options->nr_cores);
	first = options->nr_cores ? options->nr_cores : options->nr_threads;
	if (rc == 0)
		rc = start_threads(w, (unsigned)u64_min(first, options->nr_threads), err);
	if (rc < 0)
		index_walk_free(w);
	else
		*ret_walk = w;
	return rc;
}

struct index_walk *index_walk_free(struct index_walk *w)
{
	if (!w)
		return NULL;
	pthread_mutex_lock(&w->lock);
	w->ending = true;
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
	pthread_cond_broadcast(&w->work);
	pthread_mutex_unlock(&w->lock);
	for (unsigned i = 0; i < w->nr_started; i++)
		pthread_join(w->walker[i].thread, NULL);
	for (unsigned i = 0; w->walker && i < w->options.nr_threads; i++) {
		if (w->walker[i].sink.scratch)
			w->walker[i].sink.free_scratch(w->walker[i].sink.scratch);
		free(w->walker[i].found);
	}
	index_handoffs_release(&w->handoffs);
	index_sequence_release(&w->sequence);
	index_queue_release(&w->units);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->work);
	pthread_cond_destroy(&w->news);
	free(w->walker);
	free(w);
	return NULL;
}

static bool is_idle(const struct index_walk *w)
{
	return w->nr_at_work == 0 && w->units.nr == 0;
}

/* False: @until_ns has come, and nothing else. */
static bool walk_wait(struct index_walk *w, uint64_t until_ns)
{
	struct timespec until = clock_time(until_ns);
	int waited = 0;

	pthread_mutex_lock(&w->lock);
	while (waited == 0 && w->rc == 0 && !is_idle(w) && !(w->idle_elsewhere && w->units.nr > 0))
		waited = pthread_cond_timedwait(&w->news, &w->lock, &until);
	pthread_mutex_unlock(&w->lock);
	return waited == 0;
}

int index_walk_wait(struct index_walk *w, uint64_t timeout_us, struct index_walk_state *ret_state,
		    struct shoal_err *err)
{
	uint64_t until = clock_now() + timeout_us * 1000;
	bool news;
	int rc;

	do {
		bool all = w->nr_started == w->options.nr_threads;

		news = walk_wait(w,
				 all ? until : u64_min(until, w->pace.looked_ns + INDEX_PACE_NS));
		if (!all)
			start_more(w);
	} while (!news && clock_now() < until);
	pthread_mutex_lock(&w->lock);
	rc = w->rc < 0 ? err_set_as(err, w->rc, &w->err, "%s", w->err.msg) : 0;
	w->state.idle = is_idle(w);
	w->state.nr_pending = w->units.nr;
	w->state.nr_repeated = __atomic_load_n(&w->sequence.repeated, __ATOMIC_RELAXED);
	*ret_state = w->state;
	pthread_mutex_unlock(&w->lock);
	if (rc == 0 && ret_state->idle && w->sequence.first) { /* no thread is at work */
		rc = index_sequence_rest(&w->sequence, REST_AT_ONCE, w->options.take,
					 w->options.self, err);
		ret_state->idle = !w->sequence.first;
	}
	return rc;
}

/* ---- Handoffs ---- */

void index_walk_set_idle_elsewhere(struct index_walk *w, bool idle)
{
	pthread_mutex_lock(&w->lock);
	w->idle_elsewhere = idle;
	set_nr_wanted(w);
	pthread_mutex_unlock(&w->lock);
}

void index_walk_ack(struct index_walk *w, int to, uint64_t nr)
{
	pthread_mutex_lock(&w->lock);
	index_handoffs_ack(&w->handoffs, to, nr);
	pthread_mutex_unlock(&w->lock);
}

size_t index_walk_export_units(struct index_walk *w, int to, uint64_t nr, uint8_t *buf, size_t room)
{
	struct index_handoff *h = nr ? index_handoff_new(room) : NULL;
	size_t used = 0;

	if (nr && !h)
		return 0;
	pthread_mutex_lock(&w->lock);
	/* The last unit stays here if this rank has nothing else to do: otherwise it would only
	 * change places. */
	if ((w->units.nr > 1 || w->nr_at_work > 0) && w->handoffs.bytes < HANDOFF_BYTES)
		used = index_queue_export(&w->units, (w->units.nr + 1) / 2, buf, room);
	if (h && used > 0) {
		index_handoffs_keep(&w->handoffs, h, to, nr, buf, used);
		h = NULL;
		w->state.nr_steps++;
	}
	set_nr_wanted(w);
	pthread_mutex_unlock(&w->lock);
	free(h);
	return used;
}

int index_walk_push(struct index_walk *w, const void *unit, size_t len, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&w->lock);
	rc = index_queue_push(&w->units, unit, len, err);
	set_nr_wanted(w);
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int index_walk_import_units(struct index_walk *w, const uint8_t *units, size_t len,
			    struct shoal_err *err)
{
	struct span list = { .p = units, .end = units + len };
	struct index_unit_ref ref;
	int rc = 0, next;

	pthread_mutex_lock(&w->lock);
	w->state.nr_steps += len > 0;
	while (rc == 0 && (next = index_unit_next(&list, &ref)) != 0)
		rc = next < 0 ? err_set(err, next, "a unit of the listing is damaged")
			      : index_queue_push(&w->units, ref.unit, ref.len, err);
	set_nr_wanted(w);
	pthread_cond_broadcast(&w->work);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* ---- Checkpoints ---- */

int index_walk_checkpoint(struct index_walk *w, index_unit_fn *unit,
			  int (*then)(void *self, struct shoal_err *err), void *self,
			  struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&w->lock);
	rc = index_queue_each(&w->units, unit, self, err);
	for (unsigned i = 0; i < w->nr_started && rc == 0; i++)
		if (w->walker[i].at_work)
			rc = unit(self, NULL, w->walker[i].unit, w->walker[i].unit_len, err);
	if (rc == 0)
		rc = index_handoffs_each(&w->handoffs, unit, self, err);
	if (rc == 0)
		rc = then(self, err);
	pthread_mutex_unlock(&w->lock);
	return rc;
}
