#include "base/queue.h"

#include <assert.h>
#include <signal.h>

void shoal_queue_init(struct shoal_queue *q, unsigned cap)
{
	shoal_queue_init_patient(q, cap, 1);
}

void shoal_queue_init_patient(struct shoal_queue *q, unsigned cap, unsigned patience)
{
	assert(cap >= 1 && cap <= SHOAL_QUEUE_MAX && patience >= 1 && patience <= cap);
	*q = (struct shoal_queue){ .cap = cap, .patience = patience };
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->changed, NULL);
}

void shoal_queue_release(struct shoal_queue *q)
{
	pthread_cond_destroy(&q->changed);
	pthread_mutex_destroy(&q->lock);
}

bool shoal_queue_give(struct shoal_queue *q, void *item)
{
	bool open;

	pthread_mutex_lock(&q->lock);
	while (q->nr == q->cap && !q->closed)
		pthread_cond_wait(&q->changed, &q->lock);
	open = !q->closed;
	if (open) {
		q->item[(q->head + q->nr) % SHOAL_QUEUE_MAX] = item;
		q->nr++;
		if (q->nr >= q->patience)
			pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return open;
}

void *shoal_queue_take(struct shoal_queue *q)
{
	void *item = NULL;

	pthread_mutex_lock(&q->lock);
	while (q->nr == 0 && !q->closed)
		pthread_cond_wait(&q->changed, &q->lock);
	if (q->nr > 0) {
		item = q->item[q->head];
		q->head = (q->head + 1) % SHOAL_QUEUE_MAX;
		q->nr--;
		pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return item;
}

void shoal_queue_close(struct shoal_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

int shoal_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	int rc;

	/* Signals are for the thread that the program started with: it is the one that may stop. */
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
