/*
 * tasks.h - do numbered tasks on several threads, and use their results in order.
 *
 * The result does not depend on the number of threads: tasks are begun in the order of their
 * numbers, commits are made in that order, and of several errors that of the first task is
 * reported.
 */
#ifndef SHOAL_BASE_TASKS_H
#define SHOAL_BASE_TASKS_H

#include "base/err.h"

/* More threads than this are never used, so that callers may keep an array of their own data. */
#define TASKS_THREADS_MAX 64u

struct tasks {
	uint64_t nr;
	unsigned nr_threads; /* at most, with the caller's; 0: as many as tasks_threads() */
	/* Do task @k on thread @thread, 0 to nr_threads - 1: 0 is the caller's, which does task 0.
	 */
	int (*run)(void *self, unsigned thread, uint64_t k, struct shoal_err *err);
	/* Use its result: in the order of tasks, by one thread at a time. NULL: not needed. */
	int (*commit)(void *self, unsigned thread, uint64_t k, struct shoal_err *err);
	void *self;
};

/* The number of threads for @nr tasks: one per core, but no more than tasks or the limit. */
unsigned tasks_threads(uint64_t nr);

/*
 * Returns when all tasks are done or, after an error, when no more are under way. If the system
 * refuses threads, there are fewer.
 */
int tasks_run(const struct tasks *t, struct shoal_err *err) MUST_USE;

#endif
