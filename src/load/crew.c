/*
 * Several rings for one owner. One thread with one ring reads as fast as most disks are; where the
 * files are in the page cache, or the device is faster than a core, that core is the limit. Then
 * other threads, each with a ring of its own, take a part of what is submitted, a few requests at a
 * time, and the owner the rest: who is faster takes more.
 *
 * They are there only while the owner's thread has a core for itself and uses all of it: helpers
 * cost a little CPU for each request (locks, and being woken), and nothing is won where a device is
 * what one waits for, or where there are more threads than cores. 200,000 files of 16 KB in the
 * page cache, 2 cores: 118,000 a second without, 220,000 with one helper (8.5 and 8.4 us of CPU
 * each).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/queue.h"
#include "load/engine_inside.h"

/* More would wait for the owner, which also finds names and computes the order. */
#define HELPERS_MAX 3u

/* Requests that are taken at once. */
#define SHARE 16u

/* How often the owner looks how busy it is, and how much of that time it must have been on a core,
 * in 16ths, to have one helper more or one less. */
#define LOOK_NS   10000000u
#define BUSY_16TH 14u
#define IDLE_16TH 8u

/* How often, and after which pause, a file is opened again that found no descriptor free. */
#define GRACE          3u
#define GRACE_PAUSE_NS 1000000

/* A helper looks around that often even if nothing is read. */
#define HELPER_WAIT_US 100000

struct helper {
	struct crew *crew;
	struct load_engine *ring; /* the thread's from its start on, which frees it */
	pthread_t thread;
	unsigned number;
	unsigned active; /* requests that it has. The thread's */
};

struct crew {
	struct load_engine base;
	/* The owner's: */
	struct load_engine *ring;
	struct load_engine_options options; /* of rings to come */
	struct load_list fresh;             /* submitted, not kicked */
	unsigned own;                       /* requests in the ring */
	unsigned out;                       /* handed over, and not back */
	uint64_t looked, used;              /* when, and what CPU time it had had then, ns */
	unsigned nr_helpers, most;          /* that there are, and may be */
	unsigned take;                      /* the first so many are to take some */
	unsigned grace; /* how often what found no descriptor free is tried again */

	atomic_bool poked; /* the owner shall not wait, says somebody */

	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t work;  /* something is queued for helpers, or stop */
	struct load_list queued, done;
	unsigned nr_own;    /* `own`, for the helpers */
	unsigned nr_helped; /* requests in the helpers' rings */
	unsigned idle;      /* helpers that wait for work */
	unsigned wanted;    /* `take`, for the helpers */
	bool alone;         /* no helpers any more: there are too few descriptors */
	bool waiting;       /* the owner may be asleep in its ring */
	bool stop;
	int rc; /* a helper's ring failed, with this */
	struct shoal_err err;
	struct helper helper[HELPERS_MAX];
};

static struct crew *crew_of(struct load_engine *e)
{
	return (struct crew *)e;
}

/* Under the lock: whether there is something that may begin. */
static bool is_work(const struct crew *c)
{
	return c->queued.head && c->nr_own + c->nr_helped < c->base.in_flight;
}

/* Under the lock: up to SHARE of what is queued to @l, counting it in @count. How many. */
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
 * Under the lock: what a helper has read is the owner's again. One that found no descriptor free is
 * left to the owner, and so is all that comes: it has those that others hold closed soon.
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

/* One share: called and left with the lock. */
static void serve(struct helper *h)
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
			serve(h);
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

/* ---- How many ---- */

static uint64_t cpu_now(void)
{
	return shoal_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

/* Where none can be had the owner goes on without, and does not try again. */
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
	} else if (shoal_thread_start(&h->thread, help, h) < 0) {
		h->ring = load_engine_free(h->ring);
		c->most = c->nr_helpers;
	} else {
		c->nr_helpers++;
	}
}

/* Now and then: is the owner's core all used, so that a helper more would be of use? */
static void look(struct crew *c, uint64_t now)
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
static void hand_over(struct crew *c)
{
	if (c->alone)
		stay_alone(c);
	for (const struct load_request *r = c->fresh.head; r; r = r->next)
		c->out++;
	load_splice(&c->queued, &c->fresh);
	c->wanted = c->take;
	c->nr_own = c->own;
	if (c->idle > 0 && c->wanted > 0 && is_work(c))
		pthread_cond_broadcast(&c->work); /* one of the first `wanted` must hear it */
}

static void crew_kick(struct load_engine *e)
{
	struct crew *c = crew_of(e);

	if (c->fresh.head) {
		pthread_mutex_lock(&c->lock);
		hand_over(c);
		pthread_mutex_unlock(&c->lock);
	}
	c->ring->ops->kick(c->ring);
}

/*
 * No descriptor was free: whether helpers have some, or had just now, which may take a while to be
 * closed after all is read. Waits a little, so that trying again does not eat a core.
 */
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

/* No descriptor was free: whether one that needs none was waiting for its turn. It is begun. */
static bool begin_open(struct crew *c)
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

/*
 * What the owner's ring has read. One for which no descriptor was free is tried again while helpers
 * may hold some.
 */
static void collect(struct crew *c)
{
	struct load_list *done = &c->ring->done;

	for (struct load_request *r = load_pop(done); r; r = load_pop(done)) {
		if (!load_starved(r->result) || !(begin_open(c) || may_be_freed(c))) {
			c->own--;
			load_push(&c->base.done, r);
			continue;
		}
		load_take_again(r);
		c->ring->ops->submit(c->ring, r);
	}
}

/* Under the lock: what helpers have read, and their errors. */
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

/* With helpers: hand over what is new, take what they have done, and a share to do oneself. */
static int turn_with_helpers(struct crew *c, struct shoal_err *err)
{
	struct load_list mine = { NULL, NULL };
	int rc;

	pthread_mutex_lock(&c->lock);
	hand_over(c);
	rc = collect_helped(c, err);
	c->out -= take_share(c, &mine, &c->nr_own);
	c->own = c->nr_own;
	c->waiting = !c->base.done.head;
	pthread_mutex_unlock(&c->lock);
	submit_all(c->ring, &mine);
	return rc;
}

/* After a wait: what helpers have done meanwhile. */
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

/*
 * Until something is done, time is up or somebody pokes. Helpers wake the ring, maybe later than
 * needed, so that it comes back with nothing; signals end no wait here.
 */
static int crew_wait(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err)
{
	struct crew *c = crew_of(e);
	uint64_t now = load_now(), end = now + shoal_min(timeout_us, UINT64_MAX / 4000) * 1000;
	uint64_t left;
	int rc = 0;

	look(c, now);
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
		now = load_now();
	} while (rc == 0 && !e->done.head && left > 0 && !c->poked);
	c->poked = false;
	return e->done.head ? 0 : rc;
}

static void crew_wake(struct load_engine *e)
{
	crew_of(e)->poked = true;
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

/* Cores that this thread may run on. */
int load_crew_new(const struct load_engine_options *options, const struct load_engine *base,
		  struct load_engine **ret_engine, struct shoal_err *err)
{
	struct load_engine *ring;
	struct crew *c;
	int rc = load_uring_new(options, base, &ring, err);

	if (rc < 0)
		return rc;
	*ret_engine = ring;
	c = shoal_nr_cores() > 1 ? calloc(1, sizeof(*c)) : NULL;
	if (!c)
		return 0; /* the ring does without */
	c->base = *ring;
	c->base.ops = &crew_ops;
	c->ring = ring;
	c->options = *options;
	c->options.pool = NULL; /* registered once: pages would count twice as locked */
	c->most = (unsigned)shoal_min(shoal_nr_cores() - 1, HELPERS_MAX);
	c->looked = load_now();
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->work, NULL);
	*ret_engine = &c->base;
	return 0;
}
