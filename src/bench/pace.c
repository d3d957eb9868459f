#include "bench/pace.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

uint64_t bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool bench_sleep_until(uint64_t ns, const int *stop)
{
	struct timespec until = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	int rc = EINTR;

	while (rc == EINTR) {
		if (stop && __atomic_load_n(stop, __ATOMIC_RELAXED))
			return false;
		rc = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	return !(stop && __atomic_load_n(stop, __ATOMIC_RELAXED));
}

int bench_workers_init(struct bench_workers *w, size_t nr, struct shoal_err *err)
{
	w->free_at = calloc(nr ? nr : 1, sizeof(*w->free_at));
	w->nr = nr;
	return w->free_at ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
}

void bench_workers_release(struct bench_workers *w)
{
	free(w->free_at);
	*w = (struct bench_workers){ 0 };
}

/* The first has become later: let it sink to its place. */
static void sink(struct bench_workers *w)
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

uint64_t bench_workers_take(struct bench_workers *w, uint64_t read, uint64_t takes)
{
	uint64_t done = shoal_max(read, w->free_at[0]) + takes;

	w->free_at[0] = done;
	sink(w);
	return done;
}

uint64_t bench_step_plan(struct bench_step *steps, const uint64_t *ready, size_t nr, uint64_t asked,
			 uint64_t read, uint64_t here)
{
	/* From the last sample's arrival until the batch is handed out: each would wait for that.
	 */
	uint64_t handing = here - shoal_min(here, shoal_max(asked, read)), last = 0;

	for (size_t i = 0; i < nr; i++) {
		steps[i].load = shoal_max(asked, ready[i]) - asked + handing;
		last = shoal_max(last, asked + steps[i].load + steps[i].planned);
	}
	return last;
}

void bench_step_done(struct bench_step *steps, size_t nr, uint64_t asked, uint64_t woke)
{
	uint64_t last = 0;

	for (size_t i = 0; i < nr; i++)
		last = shoal_max(last, asked + steps[i].load + steps[i].planned);
	for (size_t i = 0; i < nr; i++) {
		uint64_t start = asked + steps[i].load, end = start + steps[i].planned;

		if (end == last && woke > end)
			end = woke;
		steps[i].compute = end - start;
	}
}
