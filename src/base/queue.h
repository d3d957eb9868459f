/*
 * queue.h - a bounded queue of pointers between threads.
 *
 * A full queue blocks the producer, an empty one the consumer. close() wakes both for good: after
 * it, give fails at once, and take returns the remaining items and then NULL.
 */
#ifndef SHOAL_BASE_QUEUE_H
#define SHOAL_BASE_QUEUE_H

#include <pthread.h>

#include "base/base.h"

#define QUEUE_MAX 16

struct queue {
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t changed;
	void *item[QUEUE_MAX];
	unsigned head, nr, cap;
	unsigned wake_at; /* wake a blocked consumer only once this many items are queued */
	bool closed;
};

/* @cap is 1 to QUEUE_MAX. */
void queue_init(struct queue *q, unsigned cap);

/*
 * For a producer and a consumer of about the same speed: a blocked consumer is woken only once
 * @wake_at items are queued, or when the queue is closed. One wake-up costs as much as handling a
 * thousand names. The producer must not wait for something that the consumer does earlier.
 */
void queue_init_wake_at(struct queue *q, unsigned cap, unsigned wake_at);
void queue_release(struct queue *q);

/* False when the queue is closed. */
bool queue_give(struct queue *q, void *item) MUST_USE;

/* NULL when the queue is closed and empty. */
void *queue_take(struct queue *q);

void queue_close(struct queue *q);

/* A condition whose timed waits use clock_now(): users can set the other clock. */
void cond_init_steady(pthread_cond_t *c);

/* Start a thread with a stack of 256 KiB (the default, 8 MiB, counts against address limits). */
int thread_start(pthread_t *thread, void *(*run)(void *), void *arg) MUST_USE;

#endif
