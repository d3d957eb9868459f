#include "base/tasks.h"

#include <pthread.h>

#include "base/cores.h"
#include "base/queue.h"

struct tasks_state {
	const struct tasks *t;
	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t turn;  /* a task was committed, or has failed */
	uint64_t next;        /* to begin */
	uint64_t nr_committed;
	uint64_t failed; /* the first task that failed; nr: none */
	int rc;          /* its error */
	struct shoal_err err;
};

struct tasks_thread {
	struct tasks_state *state;
	unsigned number;
	pthread_t id;
};

static bool tasks_take(struct tasks_state *s, uint64_t *ret_k)
{
	bool any;

	pthread_mutex_lock(&s->lock);
	any = s->next < s->failed;
	*ret_k = s->next;
	s->next += any;
	pthread_mutex_unlock(&s->lock);
	return any;
}

static void tasks_fail(struct tasks_state *s, uint64_t k, int rc, const struct shoal_err *err)
{
	pthread_mutex_lock(&s->lock);
	if (k < s->failed) {
		s->failed = k;
		s->rc = rc;
		s->err = *err;
	}
	pthread_cond_broadcast(&s->turn);
	pthread_mutex_unlock(&s->lock);
}

/* Wait until all tasks before @k are committed. False: one of them has failed. */
static bool wait_for_turn(struct tasks_state *s, uint64_t k)
{
	bool mine;

	pthread_mutex_lock(&s->lock);
	while (s->nr_committed < k && s->failed > k)
		pthread_cond_wait(&s->turn, &s->lock);
	mine = s->failed > k;
	pthread_mutex_unlock(&s->lock);
	return mine;
}

static void end_turn(struct tasks_state *s)
{
	pthread_mutex_lock(&s->lock);
	s->nr_committed++;
	pthread_cond_broadcast(&s->turn);
	pthread_mutex_unlock(&s->lock);
}

static void tasks_do(struct tasks_state *s, unsigned thread, uint64_t k)
{
	const struct tasks *t = s->t;
	struct shoal_err err = { "" };
	int rc = t->run(t->self, thread, k, &err);

	if (rc == 0 && t->commit) {
		if (!wait_for_turn(s, k))
			return;
		rc = t->commit(t->self, thread, k, &err);
		if (rc == 0)
			end_turn(s);
	}
	if (rc < 0)
		tasks_fail(s, k, rc, &err);
}

static void *tasks_main(void *arg)
{
	const struct tasks_thread *me = arg;
	uint64_t k;

	while (tasks_take(me->state, &k))
		tasks_do(me->state, me->number, k);
	return NULL;
}

unsigned tasks_threads(uint64_t nr)
{
	uint64_t most = u64_min(cores_available(), TASKS_THREADS_MAX);

	return (unsigned)u64_max(1, u64_min(nr, most));
}

int tasks_run(const struct tasks *t, struct shoal_err *err)
{
	unsigned nr = t->nr_threads ? (unsigned)u64_min(t->nr_threads, TASKS_THREADS_MAX)
				    : tasks_threads(t->nr);
	struct tasks_thread thread[TASKS_THREADS_MAX];
	struct tasks_state s = { .t = t, .failed = t->nr, .next = 1 };
	unsigned started = 1;

	if (t->nr == 0)
		return 0;
	pthread_mutex_init(&s.lock, NULL);
	pthread_cond_init(&s.turn, NULL);
	for (; started < u64_min(nr, t->nr); started++) {
		struct tasks_thread *next = &thread[started];

		*next = (struct tasks_thread){ .state = &s, .number = started };
		if (thread_start(&next->id, tasks_main, next) < 0)
			break;
	}
	thread[0] = (struct tasks_thread){ .state = &s };
	tasks_do(&s, 0, 0);
	tasks_main(&thread[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(thread[i].id, NULL);
	pthread_mutex_destroy(&s.lock);
	pthread_cond_destroy(&s.turn);
	return s.rc < 0 ? err_set_as(err, s.rc, &s.err, "%s", s.err.msg) : 0;
}
