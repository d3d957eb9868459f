#include "index/walk.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/queue.h"
#include "index/batch.h"
#include "index/inorder.h"

/* For units that wait. What is beyond goes to a file. */
#define UNITS_BYTES (4u << 20)

/* Units given away that are remembered. With more, none is given for a while. */
#define GIVEN_BYTES (4u << 20)

/* How often to look whether more threads would help, and how often in a row cores must have been
 * seen idle: sorting takes some of the time, by fits and starts. */
#define LOOK_NS    5000000u
#define IDLE_LOOKS 4u

/* Names that waited to be handed on in order and go to the sorter after all, before the owner looks
 * whether it is to stop. */
#define REST_AT_ONCE 16384u

/* Blocks of 512 bytes that came from a disk since the last look: nothing is cached. */
#define COLD_BLOCKS 64

/* What was given to a rank, as it was sent. */
struct gift {
	struct gift *next;
	uint64_t nr;
	int to;
	size_t len;
	uint8_t units[];
};

/* A thread: its sink, and the unit it is at. With the store's buffers, its own and the stack this
 * is what build.c counts for a thread. */
struct walker {
	struct store_sink sink; /* first: the store hands it back to us */
	struct index_walk *walk;
	pthread_t thread;
	size_t unit_len;
	bool at_work;
	struct index_batch *batch; /* NULL before something is found */
	uint8_t unit[STORE_UNIT_MAX];
};

struct index_walk {
	struct index_walk_options options;
	pthread_mutex_t take_lock; /* of the taker; may be held while asking for lock, not after */
	pthread_mutex_t lock;      /* of all that follows */
	pthread_cond_t work;       /* there are units, or an end to it */
	pthread_cond_t news;       /* for the owner */
	struct index_units units;
	struct index_inorder inorder; /* where there is somebody to take what is next */
	struct index_walk_state state;
	unsigned nr_at_work;
	struct gift *gifts; /* the latest first */
	size_t gift_bytes;
	bool hungry;        /* elsewhere */
	unsigned want_more; /* who wait, while no unit does: sinks look without the lock */
	bool ending;
	int stop; /* what the store looks at; atomic */
	int rc;   /* the first error, and its words */
	struct shoal_err err;
	unsigned nr_started;
	uint64_t looked_ns; /* the owner's: when it looked last whether more threads would help */
	uint64_t used_ns;   /* and the CPU that those there were had used till then */
	long nr_blocks;     /* and what had come from disks */
	unsigned nr_idle;   /* looks in a row at which cores were idle */
	struct walker *walker;
};

/* ---- What the store calls ---- */

static struct walker *walker_of(struct store_sink *sink)
{
	return (struct walker *)(void *)sink;
}

/* With the lock held, after a change of what it is made from. */
static void set_want_more(struct index_walk *w)
{
	/* A rank elsewhere is taken to have as many threads as we. */
	uint64_t idle = w->nr_started > w->nr_at_work ? w->nr_started - w->nr_at_work : 0;
	uint64_t elsewhere = w->hungry ? shoal_max(1, w->nr_started) : 0;
	uint64_t want = w->units.nr == 0 ? idle + elsewhere : 0;

	__atomic_store_n(&w->want_more, (unsigned)want, __ATOMIC_RELAXED);
}

static unsigned number_of(const struct walker *me)
{
	return (unsigned)(me - me->walk->walker);
}

/* Whether what is found is still kept in order. Without the lock. */
static bool is_in_order(const struct index_walk *w)
{
	return w->options.take_next && !index_inorder_is_over(&w->inorder);
}

/* Keep entries until they are next, which may be @all of a directory, and in order. False: they go
 * to the sorter. Without the lock. */
static bool keep_in_order(struct walker *me, const struct store_entry *entries, size_t nr, bool all)
{
	struct index_inorder *o = &me->walk->inorder;

	if (!is_in_order(me->walk))
		return false;
	return all ? index_inorder_found(o, number_of(me), entries, nr)
		   : index_inorder_found_some(o, number_of(me), entries, nr);
}

/* With the lock held: there may be more units than before. */
static void tell_of_units(struct index_walk *w)
{
	set_want_more(w);
	if (w->units.nr > 0 && w->nr_at_work < w->nr_started)
		pthread_cond_broadcast(&w->work);
}

/* Order is over: directories that wait for the end of the one they lie in, which may be a large
 * one, need not any more. Without the lock. */
static int let_go(struct walker *me, struct shoal_err *err)
{
	struct index_walk *w = me->walk;
	int rc;

	if (!w->options.take_next || !index_inorder_holds_units(&w->inorder, number_of(me)))
		return 0;
	pthread_mutex_lock(&w->lock);
	rc = index_inorder_let_go(&w->inorder, number_of(me), &w->units, err);
	tell_of_units(w);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static int sink_found(struct store_sink *sink, const struct store_entry *entries, size_t nr,
		      struct shoal_err *err)
{
	struct walker *me = walker_of(sink);
	struct index_walk *w = me->walk;
	const struct store_entry *last = &entries[nr - 1];
	size_t shown = (size_t)shoal_min(last->len, sizeof(w->state.where) - 1);
	bool sorted, kept;
	int rc = 0;

	/* A part of a directory is sorted with the rest of it, later; and so is all without memory.
	 */
	if (sink->whole && !me->batch)
		me->batch = malloc(sizeof(*me->batch));
	sorted = sink->whole && me->batch;
	if (sorted)
		entries = index_batch_sort(me->batch, entries, nr);
	kept = keep_in_order(me, entries, nr, sorted);
	if (!kept)
		rc = let_go(me, err);
	pthread_mutex_lock(&w->take_lock);
	if (!kept && rc == 0)
		rc = w->options.take(w->options.self, entries, nr, err);
	memcpy(w->state.where, last->name, shown);
	w->state.where[shown] = '\0';
	w->state.nr_names += nr;
	pthread_mutex_unlock(&w->take_lock);
	return rc;
}

static int sink_more(struct store_sink *sink, const void *unit, size_t len, struct shoal_err *err)
{
	struct walker *me = walker_of(sink);
	struct index_walk *w = me->walk;
	int rc;

	if (is_in_order(w) && index_inorder_more(&w->inorder, number_of(me), unit, len))
		return 0;
	rc = let_go(me, err);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&w->lock);
	rc = index_units_push(&w->units, unit, len, err);
	set_want_more(w);
	if (w->nr_at_work < w->nr_started)
		pthread_cond_signal(&w->work);
	if (w->hungry)
		pthread_cond_signal(&w->news);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static int sink_trouble(struct store_sink *sink, int rc, struct shoal_err *words)
{
	struct index_walk *w = walker_of(sink)->walk;

	/* To have run out of something is not the directory's fault: more of it would be left out.
	 */
	if (!w->options.keep_going || rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM)
		return rc;
	pthread_mutex_lock(&w->take_lock);
	w->state.nr_trouble++;
	if (w->options.trouble)
		w->options.trouble(w->options.self, words->msg);
	pthread_mutex_unlock(&w->take_lock);
	return 0;
}

static void sink_left(struct store_sink *sink, const void *unit, size_t len)
{
	struct walker *me = walker_of(sink);

	pthread_mutex_lock(&me->walk->lock);
	memcpy(me->unit, unit, len);
	me->unit_len = len;
	me->walk->state.nr_steps++;
	pthread_mutex_unlock(&me->walk->lock);
}

static unsigned sink_hungry(struct store_sink *sink)
{
	return __atomic_load_n(&walker_of(sink)->walk->want_more, __ATOMIC_RELAXED);
}

static bool sink_wanted(struct store_sink *sink, const char *name, size_t len, bool is_dir)
{
	const struct index_walk_options *o = &walker_of(sink)->walk->options;

	return o->wanted(o->self, name, len, is_dir);
}

static int sink_known(struct store_sink *sink, const struct store_dir *dir, struct shoal_err *err)
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

	while (!w->ending && (w->units.nr == 0 || index_inorder_is_behind(&w->inorder)))
		pthread_cond_wait(&w->work, &w->lock);
	if (w->ending)
		return false;
	rc = index_units_pop(&w->units, me->unit, &me->unit_len, &err);
	if (rc < 0) {
		end_with(w, rc, &err);
		return false;
	}
	if (w->options.take_next)
		index_inorder_begin(&w->inorder, number_of(me), me->unit, me->unit_len);
	me->at_work = true;
	w->nr_at_work++;
	w->state.nr_units++;
	set_want_more(w);
	return true;
}

/* With the lock held, which others have now and then meanwhile: hand on what is next. */
static int hand_on(struct index_walk *w, struct shoal_err *err)
{
	struct index_stretch *s;
	size_t nr;
	int rc = 0;

	if (w->inorder.busy) /* who does that now will see what has come */
		return 0;
	w->inorder.busy = true;
	/* At an end before all is listed nobody wants it any more, and much may wait. */
	while (rc == 0 && !w->ending &&
	       (s = index_inorder_next(&w->inorder, &w->units, &nr)) != NULL) {
		pthread_mutex_unlock(&w->lock);
		rc = index_inorder_hand_on(&w->inorder, s, nr, err);
		pthread_mutex_lock(&w->lock);
		index_inorder_give_back(&w->inorder, s);
		if (w->nr_at_work < w->nr_started && !index_inorder_is_behind(&w->inorder))
			pthread_cond_signal(&w->work); /* there is room for one more */
	}
	w->inorder.busy = false;
	tell_of_units(w); /* to who waited for us */
	return rc;
}

/* With the lock held: what was found in the unit takes its place. */
static int end_in_order(struct index_walk *w, struct walker *me, int rc, struct shoal_err *err)
{
	struct shoal_err why = { "" };
	int ended = index_inorder_end(&w->inorder, number_of(me), &w->units, &why);

	if (rc == 0 && ended < 0)
		return shoal_fail(err, ended, "%s", why.msg);
	if (rc < 0)
		return rc;
	tell_of_units(w);
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
			rc = index_inorder_sort(&w->inorder, number_of(me), &err);
		pthread_mutex_lock(&w->lock);
		if (w->options.take_next)
			rc = end_in_order(w, me, rc, &err);
		me->at_work = rc < 0; /* still to be listed: a checkpoint must have it */
		w->nr_at_work--;
		set_want_more(w);
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

static int start_thread(struct index_walk *w)
{
	struct walker *me = &w->walker[w->nr_started];
	int rc;

	me->walk = w;
	me->sink = (struct store_sink){ .found = sink_found,
					.more = sink_more,
					.trouble = sink_trouble,
					.left = w->options.take_next ? NULL : sink_left,
					.hungry = sink_hungry,
					.wanted = w->options.wanted ? sink_wanted : NULL,
					.known = w->options.known ? sink_known : NULL,
					.stop = &w->stop };
	rc = shoal_thread_start(&me->thread, walk_thread, me);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&w->lock);
	w->nr_started++;
	set_want_more(w);    /* the first may be at work on all there is */
	if (w->units.nr > 0) /* who found them knew nobody to wake */
		pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return 0;
}

/* Start threads until there are @nr. Fewer than asked for will do, but for the first. */
static int start_threads(struct index_walk *w, unsigned nr, struct shoal_err *err)
{
	while (w->nr_started < nr) {
		int rc = start_thread(w);

		if (rc < 0 && w->nr_started == 0)
			return rc == -EAGAIN ? shoal_fail(err, rc,
							  "cannot start listing: the system has no "
							  "thread for it: raise ulimit -u")
					     : shoal_fail_errno(err, rc, "cannot start listing");
		if (rc < 0)
			w->options.nr_threads = nr = w->nr_started;
	}
	return 0;
}

/* CPU time of the threads that list: others of the process, a trainer's say, do not count. */
static uint64_t used_by_threads(const struct index_walk *w)
{
	uint64_t used = 0;

	for (unsigned i = 0; i < w->nr_started; i++) {
		clockid_t clock;

		if (pthread_getcpuclockid(w->walker[i].thread, &clock) == 0)
			used += shoal_clock_ns(clock);
	}
	return used;
}

static long blocks_read(void)
{
	struct rusage u;

	return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_inblock : 0;
}

/*
 * Where everything is cached, more threads than cores only take turns: 16 on two cores took a sixth
 * longer than 3. Where they wait for a disk or a server, 16 are three times as fast as 4. Disks are
 * seen by what comes from them, and servers by cores that have nothing to do.
 */
static bool threads_wait(struct index_walk *w, uint64_t passed_ns)
{
	long blocks = blocks_read();
	uint64_t used = used_by_threads(w);
	bool at_work, cold = blocks - w->nr_blocks >= COLD_BLOCKS;

	pthread_mutex_lock(&w->lock);
	at_work = w->nr_at_work == w->nr_started && !w->ending;
	pthread_mutex_unlock(&w->lock);
	if (at_work && used - w->used_ns < passed_ns / 8 * 5 * w->options.nr_cores)
		w->nr_idle++;
	else
		w->nr_idle = 0;
	w->nr_blocks = blocks;
	w->used_ns = used;
	return at_work && (cold || w->nr_idle == IDLE_LOOKS);
}

static void start_more(struct index_walk *w)
{
	uint64_t now = shoal_clock_ns(CLOCK_MONOTONIC), passed = now - w->looked_ns;

	if (passed < LOOK_NS)
		return;
	w->looked_ns = now;
	if (threads_wait(w, passed))
		(void)!start_threads(w, w->options.nr_threads, NULL);
}

static int start_in_order(struct index_walk *w, struct shoal_err *err)
{
	w->inorder = (struct index_inorder){ .store = w->options.store,
					     .take = w->options.take_next,
					     .self = w->options.next_self,
					     .room = w->options.next_memory,
					     .samples = w->options.samples,
					     .nr_threads = w->options.nr_threads };
	return index_inorder_init(&w->inorder) ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
}

int index_walk_start(const struct index_walk_options *options, bool with_all,
		     struct index_walk **ret_walk, struct shoal_err *err)
{
	struct index_walk *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;
	unsigned first;
	int rc;

	if (!w)
		return shoal_fail(err, -ENOMEM, "out of memory");
	w->options = *options;
	w->units.fd = -1;
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->take_lock, NULL);
	pthread_cond_init(&w->work, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->news, &attr);
	pthread_condattr_destroy(&attr);
	w->walker = calloc(options->nr_threads, sizeof(*w->walker));
	rc = w->walker ? index_units_init(&w->units, UNITS_BYTES, options->tmp_dir, err)
		       : shoal_fail(err, -ENOMEM, "out of memory");
	if (rc == 0 && options->take_next)
		rc = start_in_order(w, err);
	if (rc == 0 && with_all)
		rc = index_units_push(&w->units, "", 0, err);
	w->looked_ns = shoal_clock_ns(CLOCK_MONOTONIC);
	w->nr_blocks = blocks_read();
	first = options->nr_cores ? options->nr_cores : options->nr_threads;
	if (rc == 0)
		rc = start_threads(w, (unsigned)shoal_min(first, options->nr_threads), err);
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
		free(w->walker[i].batch);
	}
	while (w->gifts) {
		struct gift *g = w->gifts;

		w->gifts = g->next;
		free(g);
	}
	index_inorder_release(&w->inorder);
	index_units_release(&w->units);
	pthread_mutex_destroy(&w->lock);
	pthread_mutex_destroy(&w->take_lock);
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

/* False: it is @until_ns, and there are none. */
static bool wait_for_news(struct index_walk *w, uint64_t until_ns)
{
	struct timespec until = { .tv_sec = (time_t)(until_ns / 1000000000u),
				  .tv_nsec = (long)(until_ns % 1000000000u) };
	int waited = 0;

	pthread_mutex_lock(&w->lock);
	while (waited == 0 && w->rc == 0 && !is_idle(w) && !(w->hungry && w->units.nr > 0))
		waited = pthread_cond_timedwait(&w->news, &w->lock, &until);
	pthread_mutex_unlock(&w->lock);
	return waited == 0;
}

int index_walk_wait(struct index_walk *w, uint64_t timeout_us, struct index_walk_state *ret_state,
		    struct shoal_err *err)
{
	uint64_t until = shoal_clock_ns(CLOCK_MONOTONIC) + timeout_us * 1000;
	bool news;
	int rc;

	do {
		bool all = w->nr_started == w->options.nr_threads;

		news = wait_for_news(w, all ? until : shoal_min(until, w->looked_ns + LOOK_NS));
		if (!all)
			start_more(w);
	} while (!news && shoal_clock_ns(CLOCK_MONOTONIC) < until);
	pthread_mutex_lock(&w->take_lock); /* always the first of the two */
	pthread_mutex_lock(&w->lock);
	rc = w->rc < 0 ? shoal_fail(err, w->rc, "%s", w->err.msg) : 0;
	w->state.idle = is_idle(w);
	w->state.nr_pending = w->units.nr;
	w->state.nr_repeated = __atomic_load_n(&w->inorder.repeated, __ATOMIC_RELAXED);
	if (rc == 0 && w->state.idle && w->inorder.first) {
		rc = index_inorder_rest(&w->inorder, REST_AT_ONCE, w->options.take, w->options.self,
					err);
		w->state.idle = !w->inorder.first;
	}
	*ret_state = w->state;
	pthread_mutex_unlock(&w->lock);
	pthread_mutex_unlock(&w->take_lock);
	return rc;
}

/* ---- Sharing ---- */

void index_walk_set_hungry(struct index_walk *w, bool hungry)
{
	pthread_mutex_lock(&w->lock);
	w->hungry = hungry;
	set_want_more(w);
	pthread_mutex_unlock(&w->lock);
}

void index_walk_forget(struct index_walk *w, int to, uint64_t nr)
{
	pthread_mutex_lock(&w->lock);
	for (struct gift **at = &w->gifts; *at;) {
		struct gift *g = *at;

		if (g->to != to || g->nr > nr) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		w->gift_bytes -= sizeof(*g) + g->len;
		free(g);
	}
	pthread_mutex_unlock(&w->lock);
}

/* With the lock held. */
static size_t take_units(struct index_walk *w, uint64_t most, uint8_t *buf, size_t room)
{
	size_t used = 0;

	for (; most > 0 && room - used > sizeof(uint32_t); most--) {
		uint32_t mark;
		size_t len;

		if (!index_units_pop_oldest(&w->units, buf + used + sizeof(mark),
					    room - used - sizeof(mark), &len))
			break;
		mark = (uint32_t)len;
		memcpy(buf + used, &mark, sizeof(mark));
		used += sizeof(mark) + len;
	}
	return used;
}

/* With the lock held: remember it, in as little memory as it needs. Returns NULL. */
static struct gift *keep(struct index_walk *w, struct gift *g)
{
	struct gift *small = realloc(g, sizeof(*g) + g->len);

	if (small)
		g = small;
	g->next = w->gifts;
	w->gifts = g;
	w->gift_bytes += sizeof(*g) + g->len;
	return NULL;
}

size_t index_walk_give(struct index_walk *w, int to, uint64_t nr, uint8_t *buf, size_t room)
{
	struct gift *g = nr ? malloc(sizeof(*g) + room) : NULL;
	size_t used = 0;

	if (nr && !g)
		return 0;
	pthread_mutex_lock(&w->lock);
	/* The last one is ours when nothing else keeps us busy: else it would only change places.
	 */
	if ((w->units.nr > 1 || w->nr_at_work > 0) && w->gift_bytes < GIVEN_BYTES)
		used = take_units(w, (w->units.nr + 1) / 2, buf, room);
	if (g && used > 0) {
		*g = (struct gift){ .nr = nr, .to = to, .len = used };
		memcpy(g->units, buf, used);
		g = keep(w, g);
		w->state.nr_steps++;
	}
	set_want_more(w);
	pthread_mutex_unlock(&w->lock);
	free(g);
	return used;
}

int index_walk_push(struct index_walk *w, const void *unit, size_t len, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&w->lock);
	rc = index_units_push(&w->units, unit, len, err);
	set_want_more(w);
	pthread_cond_signal(&w->work);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int index_walk_bring(struct index_walk *w, const uint8_t *units, size_t len, struct shoal_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	w->state.nr_steps += len > 0;
	while (rc == 0 && len > 0) {
		uint32_t mark = 0;

		if (len >= sizeof(mark))
			memcpy(&mark, units, sizeof(mark));
		if (len < sizeof(mark) || mark > len - sizeof(mark) || mark > STORE_UNIT_MAX) {
			rc = shoal_fail(err, -EBADMSG, "a unit of the listing is damaged");
			break;
		}
		rc = index_units_push(&w->units, units + sizeof(mark), mark, err);
		units += sizeof(mark) + mark;
		len -= sizeof(mark) + mark;
	}
	set_want_more(w);
	pthread_cond_broadcast(&w->work);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* ---- Stopping in between ---- */

struct handing {
	index_walk_unit_fn *unit;
	void *self;
};

static int hand_unit(void *self, const void *unit, size_t len, struct shoal_err *err)
{
	const struct handing *h = self;

	return h->unit(h->self, NULL, unit, len, err);
}

/* The units of a gift, one by one: we wrote it, so it is well made. */
static int hand_gift(const struct gift *g, const struct handing *h, struct shoal_err *err)
{
	const struct index_walk_gift gift = { .to = g->to, .nr = g->nr };
	int rc = 0;

	for (size_t at = 0; at < g->len && rc == 0;) {
		uint32_t mark;

		memcpy(&mark, g->units + at, sizeof(mark));
		rc = h->unit(h->self, &gift, g->units + at + sizeof(mark), mark, err);
		at += sizeof(mark) + mark;
	}
	return rc;
}

int index_walk_checkpoint(struct index_walk *w, index_walk_unit_fn *unit,
			  int (*then)(void *self, struct shoal_err *err), void *self,
			  struct shoal_err *err)
{
	struct handing h = { .unit = unit, .self = self };
	int rc;

	pthread_mutex_lock(&w->take_lock);
	pthread_mutex_lock(&w->lock);
	rc = index_units_each(&w->units, hand_unit, &h, err);
	for (unsigned i = 0; i < w->nr_started && rc == 0; i++)
		if (w->walker[i].at_work)
			rc = unit(self, NULL, w->walker[i].unit, w->walker[i].unit_len, err);
	for (const struct gift *g = w->gifts; g && rc == 0; g = g->next)
		rc = hand_gift(g, &h, err);
	if (rc == 0)
		rc = then(self, err);
	pthread_mutex_unlock(&w->lock);
	pthread_mutex_unlock(&w->take_lock);
	return rc;
}
