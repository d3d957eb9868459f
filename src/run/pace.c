#include "run/pace.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

bool run_sleep_until(uint64_t ns, const int *stop)
{
	struct timespec until = clock_time(ns);
	int rc = EINTR;

	while (rc == EINTR) {
		if (stop_requested(stop))
			return false;
		rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return !stop_requested(stop);
}

int run_workers_init(struct run_workers *w, size_t nr, struct shoal_err *err)
{
	w->free_at = calloc(nr ? nr : 1, sizeof(*w->free_at));
	w->nr = nr;
	return w->free_at ? 0 : err_set(err, -ENOMEM, "out of memory");
}

void run_workers_release(struct run_workers *w)
{
	free(w->free_at);
	*w = (struct run_workers){ 0 };
}

/* The first element has become later: restore the heap. */
static void sink(struct run_workers *w)
{
	uint64_t value = w->free_at[0];
	size_t at = 0;

	while (2 * at + 1 < w->nr) {
		size_t child = 2 * at + 1;

		if (child + 1 < w->nr && w->free_at[child + 1] < w->free_at[child])
			child++;
		if (w->free_at[child] >= value)
			break;
		w->free_at[at] = w->free_at[child];
		at = child;
	}
	w->free_at[at] = value;
}

uint64_t run_workers_take(struct run_workers *w, uint64_t read, uint64_t takes)
{
	uint64_t done = u64_max(read, w->free_at[0]) + takes;

	w->free_at[0] = done;
	sink(w);
	return done;
}

uint64_t run_step_plan(struct run_step *steps, const uint64_t *ready, size_t nr, uint64_t asked,
		       uint64_t read, uint64_t here)
{
	/*
	 * The time from the last sample's arrival until the batch is delivered: each accelerator
	 * waits for it.
	 */
	uint64_t handing = here - u64_min(here, u64_max(asked, read)), last = 0;

	for (size_t i = 0; i < nr; i++) {
		steps[i].load = u64_max(asked, ready[i]) - asked + handing;
		last = u64_max(last, asked + steps[i].load + steps[i].planned);
	}
	return last;
}

void run_step_done(struct run_step *steps, size_t nr, uint64_t asked, uint64_t woke)
{
	uint64_t last = 0;

	for (size_t i = 0; i < nr; i++)
		last = u64_max(last, asked + steps[i].load + steps[i].planned);
	for (size_t i = 0; i < nr; i++) {
		uint64_t start = asked + steps[i].load, end = start + steps[i].planned;

		if (end == last && woke > end)
			end = woke;
		steps[i].compute = end - start;
	}
}
