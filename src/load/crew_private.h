/* crew_private.h - shared by the owner's side of a crew, crew.c, and its threads, crew_thread.c. */
#ifndef SHOAL_LOAD_CREW_PRIVATE_H
#define SHOAL_LOAD_CREW_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "load/engine_private.h"
#include "load/pace.h"

/* The most requests that a thread takes at a time. */
#define CREW_SHARE 16u

/* Words of a set of threads. */
#define CREW_SET (PACE_MAX / 64)

struct crew;

/* A thread with a ring of its own, or one that makes one call after another. */
struct crew_thread {
	struct crew *crew;
	struct load_engine *ring; /* used by the thread from its start on; NULL: calls */
	pthread_t thread;
	unsigned number;
	unsigned active; /* requests in this ring. Used by the thread only */
	unsigned
		unsampled; /* reads since the last one that was examined. Used by the thread only */
	unsigned spacing;  /* one of so many is examined. Used by the thread only */
	pthread_cond_t work;
	uint64_t was_busy; /* the time it had requests, ns, until it last had none. Used by the
			      thread only */
	/* Readable by the owner: */
	_Atomic uint64_t busy;                 /* see crew_busy() */
	_Atomic uint64_t cpu, sampled, waited; /* see struct pace_sums */
};

/* Where the owner waits. */
enum crew_wait { CREW_AWAKE, CREW_IN_RING, CREW_ON_CONDITION };

struct crew {
	struct load_engine base;
	/* Used by the owner only: */
	struct load_engine *ring;           /* NULL: threads read everything */
	struct load_engine_options options; /* for further rings */
	struct load_list fresh;             /* submitted, not kicked */
	unsigned nr_fresh;
	unsigned own; /* requests in the ring */
	unsigned out; /* given to threads and not returned */
	struct pace pace;
	struct pace_limits limits; /* of it, if there are enough descriptors */
	uint64_t looked_at_cores;
	uint64_t short_since, short_until, short_ns; /* see short_of_files */
	unsigned grace; /* how often requests that found no free descriptor have been retried */

	bool by_calls;        /* threads have no rings */
	bool own_tables;      /* and their own descriptor tables, so no request has a shared file */
	atomic_bool stop_now; /* threads begin no further request */
	atomic_bool wake_asked; /* another thread wants the owner not to wait */
	/* For the description, from any thread: */
	_Atomic uint64_t nr_by_owner, nr_by_threads; /* requests */
	atomic_uint now, peak, cores, nr_own_tables;
	atomic_bool now_waits, refused; /* a thread could not be started */
	atomic_bool short_of_files; /* too few descriptors for several threads, until recently */

	pthread_mutex_t lock; /* protects everything below */
	pthread_cond_t some;  /* something is done, and the owner waits for it */
	struct load_list queued, done;
	unsigned nr_queued, nr_done;
	unsigned nr_own;          /* `own`, readable by threads */
	unsigned nr_helped;       /* requests in the threads' rings, or threads with requests */
	uint64_t idle[CREW_SET];  /* idle threads */
	unsigned nr_idle, waking; /* how many; threads that were woken and do not run yet */
	unsigned wanted;          /* only the first so many threads take requests */
	unsigned share;           /* a thread takes so many requests at most */
	bool alone;               /* too few descriptors for several threads */
	unsigned starved;         /* attempts to open a file since a descriptor was last free */
	enum crew_wait waiting;
	bool stop;
	int rc; /* the error of a thread's ring */
	struct shoal_err err;
	unsigned nr_threads; /* that exist. Written by the owner */
	struct crew_thread *thread[PACE_MAX];
};

/* Under the lock: whether a queued request may begin. */
static inline bool crew_is_work(const struct crew *c)
{
	return c->queued.head && c->nr_own + c->nr_helped < c->base.in_flight;
}

/* Under the lock: the first queued request, which is taken out. */
static inline struct load_request *crew_pop(struct crew *c)
{
	c->nr_queued--;
	return load_pop(&c->queued);
}

/*
 * The time that a thread had requests, in one value: if a period were added up and ended in two
 * steps, the owner could count it twice. Twice the time; while the thread has requests, the time is
 * less by when it got them, and there is 1 more.
 */
static inline uint64_t crew_busy_from(uint64_t was_busy, uint64_t now)
{
	return (was_busy - now) << 1 | 1;
}

static inline uint64_t crew_busy(uint64_t busy, uint64_t now)
{
	uint64_t sum = ((busy >> 1) + (busy & 1 ? now : 0)) & UINT64_MAX >> 1;

	return sum >> 62 ? 0 : sum; /* less than 0: the first period began after @now */
}

/* Under the lock: wake idle threads for the queued requests. */
void crew_wake_threads(struct crew *c);

/* The main function of a thread; its argument is a struct crew_thread. */
void *crew_thread_main(void *arg);

#endif
