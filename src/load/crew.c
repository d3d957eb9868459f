/*
 * The crew: several io_uring rings for one owner. One thread with one ring is as fast as most
 * disks. If the files are in the page cache, or the device is faster than a core, that core is the
 * limit. Then helper threads, each with a ring of its own, take some of the submitted requests, a
 * few at a time, and the owner takes the rest; a faster thread takes more.
 *
 * Helpers run only while the owner's thread has a core for itself and uses all of it. They cost
 * some CPU per request (locks and wakeups), and gain nothing if the device is the limit or if
 * there are more threads than cores.
 *
 * Measured with 200,000 files of 16 KB in the page cache on 2 cores: 118,000 files per second
 * without helpers, 220,000 with one (8.5 and 8.4 us of CPU per file).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/queue.h"
#include "load/engine_private.h"

/* More helpers would wait for the owner, which also looks up names and computes the order. */
#define HELPERS_MAX 3u

/* Requests that a thread takes at a time. */
#define SHARE 16u

/* How often the owner measures its load, and the share of that time on a core, in 16ths, at
 * which it adds or removes a helper. */
#define LOOK_NS   10000000u
#define BUSY_16TH 14u
#define IDLE_16TH 8u

/* How often, and after which pause, opening a file is retried when no descriptor was free. */
#define GRACE          3u
#define GRACE_PAUSE_NS 1000000

/* A helper wakes up this often even if nothing is read. */
#define HELPER_WAIT_US 100000

struct helper {
	struct crew *crew;
	struct load_engine *ring; /* used by the thread from its start on; the thread frees it */
	pthread_t thread;
	unsigned number;
	unsigned active; /* requests in this ring. Used by the thread only */
};

struct crew {
	struct load_engine base;
	/* Used by the owner only: */
	struct load_engine *ring;
	struct load_engine_options options; /* for further rings */
	struct load_list fresh;             /* submitted, not kicked */
	unsigned own;                       /* requests in the ring */
	unsigned out;                       /* given to helpers and not returned */
	uint64_t looked,
		used; /* the time of the last measurement, and the CPU time used until then, ns */
	unsigned nr_helpers, most; /* helpers that exist, and their limit */
	unsigned take;             /* only the first this many take requests */
	unsigned grace; /* how often requests that found no free descriptor have been retried */

	atomic_bool wake_asked; /* another thread wants the owner not to wait */

	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t work;  /* requests are queued for helpers, or stop is set */
	struct load_list queued, done;
	unsigned nr_own;    /* `own`, readable by helpers */
	unsigned nr_helped; /* requests in the helpers' rings */
	unsigned idle;      /* idle helpers */
	unsigned wanted;    /* `take`, readable by helpers */
	bool alone;         /* no helpers any more: there are too few descriptors */
	bool waiting;       /* the owner may be asleep in its ring */
	bool stop;
	int rc; /* the error of a helper's ring */
	struct shoal_err err;
	struct helper helper[HELPERS_MAX];
};

static struct crew *crew_of(struct load_engine *e)
{
	return (struct crew *)e;
}

/* Under the lock: whether a queued request may begin. */
static bool is_work(const struct crew *c)
{
	return c->queued.head && c->nr_own + c->nr_helped < c->base.in_flight;
}

/* Under the lock: move up to SHARE queued requests to @l and count them in @count. Returns how
 * many. */
static unsigned take_share(struct crew *c, struct load_list *l, unsigned *count)
{
	unsigned nr = 0;

	for (; nr < SHARE && is_work(c); nr++) {
		load_push(l, load_pop(&c->queued));
		++*count;
	}
	return nr;
}

static void submit_all(struct load_engine *ring, struct load_list *l)
{
	for (struct load_request *r = load_pop(l); r; r = load_pop(l))
		ring->ops->submit(ring, r);
}

/* ---- In the helpers ---- */

/*
 * Under the lock: return to the owner the requests that a helper has read. A request that found
 * no free descriptor is left to the owner, and so are all later ones, so that the descriptors
 * that are held are closed soon.
 */
static void give_back(struct helper *h)
{
	struct crew *c = h->crew;

	for (struct load_request *r = load_pop(&h->ring->done); r; r = load_pop(&h->ring->done)) {
		h->active--;
		c->nr_helped--;
		if (load_starved(r->result)) {
			c->alone = true;
			c->wanted = 0;
			load_take_again(r);
			load_push(&c->queued, r);
		} else {
			load_push(&c->done, r);
		}
	}
}

/* Execute one group of requests. Called and left with the lock held. */
static void crew_serve(struct helper *h)
{
	struct crew *c = h->crew;
	struct load_list mine = { NULL, NULL };
	struct shoal_err err = { "" };
	bool wake;
	int rc;

	if (h->number < c->wanted)
		h->active += take_share(c, &mine, &c->nr_helped);
	pthread_mutex_unlock(&c->lock);
	submit_all(h->ring, &mine);
	rc = h->ring->ops->wait(h->ring, HELPER_WAIT_US, &err);
	pthread_mutex_lock(&c->lock);
	give_back(h);
	if (rc < 0 && c->rc == 0) {
		c->rc = rc;
		c->err = err;
	}
	wake = c->waiting && (c->done.head || c->queued.head || c->rc < 0);
	if (!wake)
		return;
	c->waiting = false;
	pthread_mutex_unlock(&c->lock);
	load_engine_wake(c->ring);
	pthread_mutex_lock(&c->lock);
}

static void *help(void *arg)
{
	struct helper *h = arg;
	struct crew *c = h->crew;

	pthread_mutex_lock(&c->lock);
	while (!c->stop && c->rc == 0) {
		if (h->active > 0 || (h->number < c->wanted && is_work(c))) {
			crew_serve(h);
			continue;
		}
		c->idle++;
		pthread_cond_wait(&c->work, &c->lock);
		c->idle--;
	}
	pthread_mutex_unlock(&c->lock);
	h->ring = load_engine_free(h->ring);
	return NULL;
}

/* ---- The number of helpers ---- */

static uint64_t cpu_now(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* If no helper can be started, the owner continues without and does not try again. */
static void add_helper(struct crew *c)
{
	struct load_engine base = { .store = c->base.store,
				    .posix = c->base.posix,
				    .direct = c->base.direct,
				    .in_flight = c->base.in_flight };
	struct helper *h = &c->helper[c->nr_helpers];

	*h = (struct helper){ .crew = c, .number = c->nr_helpers };
	if (load_uring_new(&c->options, &base, &h->ring, NULL) < 0) {
		c->most = c->nr_helpers;
	} else if (thread_start(&h->thread, help, h) < 0) {
		h->ring = load_engine_free(h->ring);
		c->most = c->nr_helpers;
	} else {
		c->nr_helpers++;
	}
}

/* From time to time: add a helper if the owner's core is fully used. */
static void crew_check_load(struct crew *c, uint64_t now)
{
	uint64_t passed = now - c->looked, used;

	if (passed < LOOK_NS)
		return;
	used = cpu_now();
	if (used - c->used > passed / 16 * BUSY_16TH) {
		if (c->take == c->nr_helpers && c->take < c->most)
			add_helper(c);
		c->take += c->take < c->nr_helpers && c->take < c->most;
	} else if (used - c->used < passed / 16 * IDLE_16TH && c->take > 0) {
		c->take--;
	}
	c->looked = now;
	c->used = used;
}

/* ---- The owner's side ---- */

static void crew_submit(struct load_engine *e, struct load_request *r)
{
	struct crew *c = crew_of(e);

	if (c->take == 0 && c->out == 0) {
		c->own++;
		c->ring->ops->submit(c->ring, r);
	} else {
		load_push(&c->fresh, r);
	}
}

static void stay_alone(struct crew *c)
{
	c->take = c->most = 0;
}

/* Under the lock. */
static void crew_deliver(struct crew *c)
{
	if (c->alone)
		stay_alone(c);
	for (const struct load_request *r = c->fresh.head; r; r = r->next)
		c->out++;
	load_splice(&c->queued, &c->fresh);
	c->wanted = c->take;
	c->nr_own = c->own;
	if (c->idle > 0 && c->wanted > 0 && is_work(c))
		pthread_cond_broadcast(&c->work); /* one of the first `wanted` must be woken */
}

static void crew_kick(struct load_engine *e)
{
	struct crew *c = crew_of(e);

	if (c->fresh.head) {
		pthread_mutex_lock(&c->lock);
		crew_deliver(c);
		pthread_mutex_unlock(&c->lock);
	}
	c->ring->ops->kick(c->ring);
}

/* No descriptor was free: whether helpers hold some, or held some until a moment ago, because
 * closing takes a while after the last read. Waits a little, so that retries do not use up a core.
 * */
static bool may_be_freed(struct crew *c)
{
	if (c->nr_helpers == 0)
		return false;
	pthread_mutex_lock(&c->lock);
	if (c->nr_helped > 0 || !c->alone)
		c->grace = GRACE;
	c->alone = true;
	c->wanted = 0;
	pthread_mutex_unlock(&c->lock);
	stay_alone(c);
	if (c->grace == 0)
		return false;
	c->grace--;
	nanosleep(&(struct timespec){ .tv_nsec = GRACE_PAUSE_NS }, NULL);
	return true;
}

/* No descriptor was free: begin a waiting request that needs none. Returns whether there was one.
 * */
static bool crew_begin_open(struct crew *c)
{
	struct load_request *r;

	if (c->out == 0)
		return false;
	pthread_mutex_lock(&c->lock);
	r = load_pop_open(&c->queued);
	if (r)
		c->nr_own++;
	pthread_mutex_unlock(&c->lock);
	if (!r)
		return false;
	c->out--;
	c->own++;
	c->ring->ops->submit(c->ring, r);
	return true;
}

/* Reap the owner's ring. A request that found no free descriptor is retried while helpers may
 * hold some. */
static void collect(struct crew *c)
{
	struct load_list *done = &c->ring->done;

	for (struct load_request *r = load_pop(done); r; r = load_pop(done)) {
		if (!load_starved(r->result) || !(crew_begin_open(c) || may_be_freed(c))) {
			c->own--;
			load_push(&c->base.done, r);
			continue;
		}
		load_take_again(r);
		c->ring->ops->submit(c->ring, r);
	}
}

/* Under the lock: collect the requests that helpers have completed, and their errors. */
static int collect_helped(struct crew *c, struct shoal_err *err)
{
	for (struct load_request *r = load_pop(&c->done); r; r = load_pop(&c->done)) {
		load_push(&c->base.done, r);
		c->out--;
	}
	if (c->rc < 0 && err)
		*err = c->err;
	return c->rc;
}

/* With helpers: queue new requests, collect completed ones, and take a group for the owner's
 * ring. */
static int turn_with_helpers(struct crew *c, struct shoal_err *err)
{
	struct load_list mine = { NULL, NULL };
	int rc;

	pthread_mutex_lock(&c->lock);
	crew_deliver(c);
	rc = collect_helped(c, err);
	c->out -= take_share(c, &mine, &c->nr_own);
	c->own = c->nr_own;
	c->waiting = !c->base.done.head;
	pthread_mutex_unlock(&c->lock);
	submit_all(c->ring, &mine);
	return rc;
}

/* After a wait: collect the requests that helpers have completed meanwhile. */
static int look_at_helpers(struct crew *c, struct shoal_err *err)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	c->waiting = false;
	c->nr_own = c->own;
	rc = collect_helped(c, err);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

/* Wait until a request is done, time is up or another thread wakes the owner. Helpers wake the
 * ring, maybe later than needed, so that it returns with nothing; signals do not end this wait. */
static int crew_wait(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err)
{
	struct crew *c = crew_of(e);
	uint64_t now = clock_now(), end = now + u64_min(timeout_us, UINT64_MAX / 4000) * 1000;
	uint64_t left;
	int rc = 0;

	crew_check_load(c, now);
	do {
		bool helped = c->out > 0 || c->fresh.head;

		left = end > now ? (end - now) / 1000 : 0;
		if (helped)
			rc = turn_with_helpers(c, err);
		if (rc == 0)
			rc = c->ring->ops->wait(c->ring, e->done.head ? 0 : left, err);
		collect(c);
		if (helped && rc == 0)
			rc = look_at_helpers(c, err);
		now = clock_now();
	} while (rc == 0 && !e->done.head && left > 0 && !c->wake_asked);
	c->wake_asked = false;
	return e->done.head ? 0 : rc;
}

static void crew_wake(struct load_engine *e)
{
	crew_of(e)->wake_asked = true;
	load_engine_wake(crew_of(e)->ring);
}

static void crew_free(struct load_engine *e)
{
	struct crew *c = crew_of(e);

	pthread_mutex_lock(&c->lock);
	c->stop = true;
	c->queued = (struct load_list){ NULL, NULL };
	pthread_cond_broadcast(&c->work);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->nr_helpers; i++)
		pthread_join(c->helper[i].thread, NULL);
	c->ring = load_engine_free(c->ring);
	pthread_cond_destroy(&c->work);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static const struct load_engine_ops crew_ops = {
	.name = "uring",
	.submit = crew_submit,
	.kick = crew_kick,
	.wait = crew_wait,
	.wake = crew_wake,
	.free = crew_free,
};

/* Create a crew, sized for the cores that this thread may run on. */
int load_crew_new(const struct load_engine_options *options, const struct load_engine *base,
		  struct load_engine **ret_engine, struct shoal_err *err)
{
	struct load_engine *ring;
	struct crew *c;
	int rc = load_uring_new(options, base, &ring, err);

	if (rc < 0)
		return rc;
	*ret_engine = ring;
	c = cores_available() > 1 ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return 0; /* one ring works without helpers */
	c->base = *ring;
	c->base.ops = &crew_ops;
	c->ring = ring;
	c->options = *options;
	c->options.pool = NULL; /* registered once: the pages would count twice as locked memory */
	c->most = (unsigned)u64_min(cores_available() - 1, HELPERS_MAX);
	c->looked = clock_now();
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	*ret_engine = &c->base;
	return 0;
}
