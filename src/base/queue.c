#include "base/queue.h"

#include <assert.h>
#include <signal.h>
#include <time.h>

void queue_init(struct queue *q, unsigned cap)
{
	queue_init_wake_at(q, cap, 1);
}

void queue_init_wake_at(struct queue *q, unsigned cap, unsigned wake_at)
{
	assert(cap >= 1 && cap <= QUEUE_MAX && wake_at >= 1 && wake_at <= cap);
	*q = (struct queue){ .cap = cap, .wake_at = wake_at };
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
}

void queue_release(struct queue *q)
{
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
}

bool queue_give(struct queue *q, void *item)
{
	bool open;

	pthread_mutex_lock(&q->lock);
	while (q->nr == q->cap && !q->closed)
		pthread_cond_wait(&q->changed, &q->lock);
	open = !q->closed;
	if (open) {
		q->item[(q->head + q->nr) % QUEUE_MAX] = item;
		q->nr++;
		if (q->nr >= q->wake_at)
			pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return open;
}

void *queue_take(struct queue *q)
{
	void *item = NULL;

	pthread_mutex_lock(&q->lock);
	while (q->nr == 0 && !q->closed)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->nr > 0) {
		item = q->item[q->head];
		q->head = (q->head + 1) % QUEUE_MAX;
		q->nr--;
		pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return item;
}

void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

void cond_init_steady(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

int thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	/*
	 * Signals belong to the program's main thread: it is the one that handles a request to
	 * stop.
	 */
	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256u << 10);
	rc = -pthread_create(thread, &attr, run, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
