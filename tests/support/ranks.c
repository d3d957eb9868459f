#include "ranks.h"

#include <pthread.h>
#include <stdio.h>

#include "help.h"

static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;
static char fault[1024];

void ranks_forget_fault(void)
{
	fault[0] = '\0';
}

void ranks_note_fault(int line, const char *condition, const char *words)
{
	pthread_mutex_lock(&fault_lock);
	if (!fault[0])
		snprintf(fault, sizeof(fault), "line %d: %s (%s)", line, condition, words);
	pthread_mutex_unlock(&fault_lock);
}

void ranks_check(const struct thread_world *w)
{
	if (fault[0] && w)
		fail_msg("%d ranks, eager %zu: %s", w->size, w->eager, fault);
	else if (fault[0])
		fail_msg("%s", fault);
}

static int closed; /* atomic */

int ranks_closed(void)
{
	return __atomic_load_n(&closed, __ATOMIC_SEQ_CST);
}

struct rank_thread {
	pthread_t thread;
	struct thread_world *world;
	rank_fn *fn;
	int rank;
};

static void *run_rank(void *arg)
{
	struct rank_thread *t = arg;
	struct comm *c = NULL;
	struct shoal_err err = { "" };
	int rc = comm_open_transport(&thread_transport, &t->world->rank[t->rank], &c, &err);

	/* A rank that is through may fail before this one is. */
	CHECK_ERR(rc == 0 || rc == -EREMOTEIO, err);
	if (rc < 0)
		return NULL;
	CHECK(comm_place(c)->rank == t->rank);
	t->fn(c, t->rank, t->world->size);
	CHECK(comm_close(c) == NULL);
	__atomic_add_fetch(&closed, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

int ranks_run(struct thread_world *w, rank_fn *fn)
{
	struct rank_thread t[THREAD_RANKS_MAX];

	ranks_forget_fault();
	__atomic_store_n(&closed, 0, __ATOMIC_SEQ_CST);
	for (int i = 0; i < w->size; i++) {
		t[i] = (struct rank_thread){ .world = w, .fn = fn, .rank = i };
		assert_int_equal(pthread_create(&t[i].thread, NULL, run_rank, &t[i]), 0);
	}
	for (int i = 0; i < w->size; i++)
		pthread_join(t[i].thread, NULL);
	ranks_check(w);
	return w->aborted;
}
