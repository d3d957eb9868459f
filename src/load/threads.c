/*
 * Reads by a pool of threads, one request per thread, through a store without files; files are for
 * a crew (crew.c).
 *
 * If reads take no time there is no pool, and the owner reads: 24 ranks on 2 cores spent more on
 * waking threads than on everything else (15.6 us of CPU per sample, and 5.1 without threads).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/queue.h"
#include "load/engine_private.h"

/* More threads than this cost more than they gain; further requests wait. */
#define THREADS_MAX 256

/*
 * How many threads are being woken at once. The first of them to run wakes more, if there is
 * still work: if reads take no time, one thread does them all before a second could start. With
 * 2, a null store took 0.9 us of CPU per request, instead of 3.5 when all were woken (64 in
 * flight, 2 cores, medians of 30 alternating runs); with 8 in flight 5.1 instead of 7.7.
 */
#define WAKING_MAX 4

/* The owner is not woken for each request while threads have work: only for this many, or for
 * one that took so long that waking costs little in comparison. */
#define DONE_MANY    16
#define DONE_SLOW_NS 50000

struct threads {
	struct load_engine base;
	struct load_list fresh; /* submitted, not kicked. Used by the owner only */
	pthread_mutex_t lock;   /* protects everything below, except what never changes */
	pthread_cond_t work;    /* something is queued, or stop */
	pthread_cond_t some;    /* something is done, and the owner waits for it */
	pthread_cond_t freed;   /* a read has ended, and a thread waits for a descriptor */
	struct load_list queued, done;
	unsigned nr_queued, nr_done;
	unsigned idle;    /* idle threads */
	unsigned woken;   /* of those, signalled and not yet running */
	unsigned busy;    /* threads that have a request */
	unsigned starved; /* of those, waiting for another thread to end its read */
	uint64_t closed;  /* requests completed so far */
	bool waiting;     /* the owner waits for a completion */
	bool wake_asked;  /* the owner must not wait */
	bool stop;
	unsigned nr_threads;
	pthread_t thread[];
};

static struct threads *threads_of(struct load_engine *e)
{
	return (struct threads *)e;
}

/* Under the lock. */
static void wake(struct threads *t)
{
	while (t->woken < t->idle && t->woken < t->nr_queued && t->woken < WAKING_MAX) {
		t->woken++;
		pthread_cond_signal(&t->work);
	}
}

/* ---- In the threads ---- */

/* Store the result in r->result. */
static void read_once(const struct load_engine *e, struct load_request *r)
{
	size_t len = (size_t)r->len + !r->inside;

	r->result = r->etag ? store_read_if(e->store, r->name, r->etag, r->off, r->buf, len, NULL)
			    : store_read(e->store, r->name, r->off, r->buf, len, NULL);
}

/* Wait under the lock until another thread has ended its read, so that more than @before have
 * ended. False if there is no such thread: all that have a request are waiting too. */
static bool wait_for_descriptor(struct threads *t, uint64_t before)
{
	if (t->closed == before)
		t->starved++;
	while (t->closed == before && t->busy > t->starved && !t->stop)
		pthread_cond_wait(&t->freed, &t->lock);
	if (t->closed == before)
		t->starved--; /* otherwise the closing thread has reset it for all */
	return t->closed != before && !t->stop;
}

/* Called and left with the lock held. */
static void threads_serve(struct threads *t, struct load_request *r)
{
	uint64_t before, began = clock_now();

	r->begun = began;
	t->busy++;
	do {
		/* Read before the attempt, so that a read that ends meanwhile is not missed. */
		before = t->closed;
		pthread_mutex_unlock(&t->lock);
		read_once(&t->base, r);
		r->finished = clock_now();
		pthread_mutex_lock(&t->lock);
	} while (load_starved(r->result) && wait_for_descriptor(t, before));
	(void)load_release_file(r); /* it was not opened: only counted */
	t->busy--;
	t->closed++;
	load_push(&t->done, r);
	t->nr_done++;
	if (t->starved > 0) {
		t->starved = 0; /* they retry, though not at once */
		pthread_cond_broadcast(&t->freed);
	}
	if (t->waiting &&
	    (t->nr_queued == 0 || t->nr_done >= DONE_MANY || r->finished - began > DONE_SLOW_NS)) {
		t->waiting = false; /* one wake-up is enough */
		pthread_cond_signal(&t->some);
	}
}

static void *threads_main(void *arg)
{
	struct threads *t = arg;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		struct load_request *r = load_pop(&t->queued);

		if (r) {
			t->nr_queued--;
			wake(t);
			threads_serve(t, r);
			continue;
		}
		t->idle++;
		pthread_cond_wait(&t->work, &t->lock);
		t->idle--;
		if (t->woken > 0)
			t->woken--;
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

/* ---- The owner's side ---- */

static void threads_submit(struct load_engine *e, struct load_request *r)
{
	load_push(&threads_of(e)->fresh, r);
}

/* Under the lock. */
static void threads_deliver(struct threads *t)
{
	for (struct load_request *r = t->fresh.head; r; r = r->next)
		t->nr_queued++;
	load_splice(&t->queued, &t->fresh);
	wake(t);
}

static void threads_kick(struct load_engine *e)
{
	struct threads *t = threads_of(e);

	if (!t->fresh.head || e->store->traits.instant)
		return;
	pthread_mutex_lock(&t->lock);
	threads_deliver(t);
	pthread_mutex_unlock(&t->lock);
}

/* The owner executes what it has submitted. */
static void read_at_once(struct threads *t)
{
	struct load_request *r;

	for (unsigned i = 0; i < DONE_MANY && (r = load_pop(&t->fresh)); i++) {
		read_once(&t->base, r);
		r->finished = clock_now();
		load_push(&t->base.done, r);
	}
}

static struct timespec deadline_after(uint64_t timeout_us)
{
	/* A year stands for no timeout, and does not overflow. */
	uint64_t ns = clock_now() + u64_min(timeout_us, UINT64_C(31536000000000)) * 1000;

	return clock_time(ns);
}

static int threads_wait(struct load_engine *e, uint64_t timeout_us, struct shoal_err *err)
{
	struct threads *t = threads_of(e);
	struct timespec until = { 0 };
	int rc = 0;

	(void)err;
	if (e->store->traits.instant) {
		read_at_once(t);
		return 0;
	}
	pthread_mutex_lock(&t->lock);
	threads_deliver(t);
	if (!t->done.head && timeout_us > 0)
		until = deadline_after(timeout_us);
	while (!t->done.head && !t->wake_asked && timeout_us > 0 && rc == 0) {
		t->waiting = true;
		rc = pthread_cond_timedwait(&t->some, &t->lock, &until);
	}
	t->waiting = t->wake_asked = false;
	load_splice(&e->done, &t->done);
	t->nr_done = 0;
	pthread_mutex_unlock(&t->lock);
	return 0;
}

static void threads_wake(struct load_engine *e)
{
	struct threads *t = threads_of(e);

	pthread_mutex_lock(&t->lock);
	t->wake_asked = true;
	pthread_cond_signal(&t->some);
	pthread_mutex_unlock(&t->lock);
}

static void threads_free(struct load_engine *e)
{
	struct threads *t = threads_of(e);

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->work);
	pthread_cond_broadcast(&t->freed);
	pthread_mutex_unlock(&t->lock);
	for (unsigned i = 0; i < t->nr_threads; i++)
		pthread_join(t->thread[i], NULL);
	pthread_cond_destroy(&t->freed);
	pthread_cond_destroy(&t->some);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static const struct load_engine_ops threads_ops = {
	.name = "threads",
	.by_store = true,
	.submit = threads_submit,
	.kick = threads_kick,
	.wait = threads_wait,
	.wake = threads_wake,
	.free = threads_free,
};

static void init_lock(struct threads *t)
{
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	pthread_cond_init(&t->freed, NULL);
	cond_init_steady(&t->some);
}

/* "64 threads; <why threads>" */
static void threads_describe(struct threads *t, unsigned asked)
{
	char why[sizeof(t->base.detail)];

	snprintf(why, sizeof(why), "%s", t->base.detail);
	if (asked == 0) {
		snprintf(t->base.detail, sizeof(t->base.detail), "none: reads take no time here");
		return;
	}
	snprintf(t->base.detail, sizeof(t->base.detail), "%u thread%s%s%s%.190s", t->nr_threads,
		 t->nr_threads == 1 ? "" : "s",
		 t->nr_threads < asked ? ", no more could be started" : "", why[0] ? "; " : "",
		 why);
}

int load_threads_new(const struct load_engine_options *options, const struct load_engine *base,
		     struct load_engine **ret_engine, struct shoal_err *err)
{
	uint64_t most = options->threads ? options->threads : THREADS_MAX;
	unsigned nr = base->store->traits.instant ? 0 : (unsigned)u64_min(base->in_flight, most);
	struct threads *t = calloc(1, sizeof(*t) + nr * sizeof(t->thread[0]));
	int rc = 0;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->base = *base;
	t->base.ops = &threads_ops;
	init_lock(t);
	for (; t->nr_threads < nr; t->nr_threads++) {
		rc = thread_start(&t->thread[t->nr_threads], threads_main, t);
		if (rc < 0)
			break;
	}
	if (rc < 0 && t->nr_threads == 0) {
		threads_free(&t->base);
		return err_set_errno(err, rc, "cannot start a reading thread");
	}
	threads_describe(t, nr);
	*ret_engine = &t->base;
	return 0;
}
