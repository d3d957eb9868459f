/*
 * Goal: tasks are all done, once, on any number of threads; their results are used in order, and
 * the error of the first one that fails is the one reported.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/tasks.h"
#include "faults.h"
#include "help.h"

#define NR_TASKS 1000u

struct work {
	unsigned done[NR_TASKS]; /* how often; each is changed by one thread */
	uint64_t committed[NR_TASKS], nr_committed;
	uint64_t result[TASKS_THREADS_MAX];
	uint64_t fails, commit_fails; /* the tasks that fail, and all after them */
	pthread_t caller;
	bool first_is_callers;
};

static int run(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct work *w = self;

	w->done[k]++;
	w->result[thread] = k * k;
	if (k == 0)
		w->first_is_callers = thread == 0 && pthread_equal(pthread_self(), w->caller);
	return k >= w->fails ? err_set(err, -EIO, "task %u fails", (unsigned)k) : 0;
}

static int commit(void *self, unsigned thread, uint64_t k, struct shoal_err *err)
{
	struct work *w = self;

	if (k >= w->commit_fails)
		return err_set(err, -ENOSPC, "commit %u fails", (unsigned)k);
	w->committed[w->nr_committed++] = w->result[thread];
	return 0;
}

static struct work *work_new(void)
{
	struct work *w = allocate(1, sizeof(*w));

	w->fails = w->commit_fails = NR_TASKS;
	w->caller = pthread_self();
	return w;
}

static int do_all(struct work *w, unsigned nr_threads, uint64_t nr, struct shoal_err *err)
{
	struct tasks t = {
		.nr = nr, .nr_threads = nr_threads, .run = run, .commit = commit, .self = w
	};

	return tasks_run(&t, err);
}

static void check_all_done(struct work *w, unsigned nr_threads, uint64_t nr)
{
	struct shoal_err err = { "" };

	assert_int_equal(do_all(w, nr_threads, nr, &err), 0);
	assert_int_equal(w->nr_committed, nr);
	for (uint64_t k = 0; k < nr; k++) {
		assert_int_equal(w->done[k], 1);
		assert_int_equal(w->committed[k], k * k);
	}
	assert_true(nr == 0 || w->first_is_callers);
	assert_string_equal(err.msg, "");
}

static void every_task_is_done_once_and_committed_in_order(void **state)
{
	static const unsigned threads[] = { 0, 1, 2, 7, TASKS_THREADS_MAX, 1000 };
	static const uint64_t nr[] = { 0, 1, 2, 3, NR_TASKS };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		for (size_t j = 0; j < ARRAY_LEN(nr); j++) {
			struct work *w = work_new();

			check_all_done(w, threads[i], nr[j]);
			free(w);
		}
}

static void a_system_that_refuses_threads_only_makes_it_slower(void **state)
{
	(void)state;
	for (int nth = 1; nth < 5; nth++) {
		struct work *w = work_new();
		struct fault f = { 0 };

		fault_arm(&f, FAULT_THREAD, nth, 100, EAGAIN);
		check_all_done(w, 8, NR_TASKS);
		fault_disarm(&f);
		assert_int_equal(f.fired, 1); /* it was not asked again */
		free(w);
	}
}

static void the_first_error_is_reported_and_what_comes_after_is_left_out(void **state)
{
	static const uint64_t fails[] = { 0, 1, 17, NR_TASKS - 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(fails); i++)
		for (unsigned threads = 1; threads <= 8; threads += 7) {
			struct work *w = work_new();
			struct shoal_err err = { "" };
			char want[32];

			w->fails = fails[i];
			assert_int_equal(do_all(w, threads, NR_TASKS, &err), -EIO);
			snprintf(want, sizeof(want), "task %u fails", (unsigned)fails[i]);
			assert_string_equal(err.msg, want);
			assert_int_equal(w->nr_committed, fails[i]);
			if (threads == 1 && fails[i] + 1 < NR_TASKS)
				assert_int_equal(w->done[fails[i] + 1], 0);
			free(w);
		}
}

static void a_commit_that_fails_ends_it(void **state)
{
	(void)state;
	for (unsigned threads = 1; threads <= 8; threads += 7) {
		struct work *w = work_new();
		struct shoal_err err = { "" };

		w->commit_fails = 5;
		w->fails = 9; /* later, even if it happens earlier */
		assert_int_equal(do_all(w, threads, NR_TASKS, &err), -ENOSPC);
		assert_string_equal(err.msg, "commit 5 fails");
		assert_int_equal(w->nr_committed, 5);
		free(w);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_task_is_done_once_and_committed_in_order),
		cmocka_unit_test(a_system_that_refuses_threads_only_makes_it_slower),
		cmocka_unit_test(the_first_error_is_reported_and_what_comes_after_is_left_out),
		cmocka_unit_test(a_commit_that_fails_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
