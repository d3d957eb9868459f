/*
 * queue.h - a bounded queue of pointers between threads.
 *
 * A full queue makes the giver wait, an empty one the taker. close() wakes both for good: after it,
 * give fails at once and take hands out what is left and then NULL.
 */
#ifndef SHOAL_BASE_QUEUE_H
#define SHOAL_BASE_QUEUE_H

#include <pthread.h>

#include "base/base.h"

#define SHOAL_QUEUE_MAX 16

struct shoal_queue {
	pthread_mutex_t lock; /* of all that follows */
	pthread_cond_t changed;
	void *item[SHOAL_QUEUE_MAX];
	unsigned head, nr, cap;
	unsigned patience; /* who waits to take is woken when so many are there */
	bool closed;
};

/* @cap is 1 to SHOAL_QUEUE_MAX. */
void shoal_queue_init(struct shoal_queue *q, unsigned cap);

/*
 * The same, for a giver and a taker that are about as fast: one who waits to take is left to wait
 * until @patience items are there, or it is closed. To wake somebody for each costs as much as a
 * thousand names take. Whoever gives must not wait for what the taker does before.
 */
void shoal_queue_init_patient(struct shoal_queue *q, unsigned cap, unsigned patience);
void shoal_queue_release(struct shoal_queue *q);

/* False when the queue is closed. */
bool shoal_queue_give(struct shoal_queue *q, void *item) SHOAL_MUST_USE;

/* NULL when the queue is closed and empty. */
void *shoal_queue_take(struct shoal_queue *q);

void shoal_queue_close(struct shoal_queue *q);

/* Start a thread with a stack of 256 KiB (the default, 8 MiB, counts against address limits). */
int shoal_thread_start(pthread_t *thread, void *(*run)(void *), void *arg) SHOAL_MUST_USE;

#endif
