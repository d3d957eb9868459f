/*
 * pace.h - when the batch of a simulated accelerator is there, and waiting until then.
 *
 * A process may stand for several accelerators: they share one loader, whose batch is theirs one
 * behind the other, which is just what each would read as a rank of its own.
 */
#ifndef SHOAL_BENCH_PACE_H
#define SHOAL_BENCH_PACE_H

#include "bench/metrics.h"
#include "bench/workload.h"

uint64_t bench_now(void); /* ns by CLOCK_MONOTONIC */

/* Sleep until then, or until *@stop is not 0 (false). */
bool bench_sleep_until(uint64_t ns, const int *stop);

/*
 * Preprocessing: each of an accelerator's workers takes one sample at a time, as soon as it was
 * read and the worker is free, and sleeps. It is all in the past or the future, so nobody need
 * really sleep: only when the last sample is done matters.
 */
struct bench_workers {
	uint64_t *free_at; /* of each worker, in ns: a heap, the earliest first */
	size_t nr;
};

int bench_workers_init(struct bench_workers *w, size_t nr, struct shoal_err *err) SHOAL_MUST_USE;
void bench_workers_release(struct bench_workers *w);

/* The sample that was read at @read and takes @takes ns is done at the time returned. */
uint64_t bench_workers_take(struct bench_workers *w, uint64_t read, uint64_t takes);

/*
 * The steps of @nr accelerators that asked at @asked, in ns of the clock: steps[a].planned is how
 * long the compute of each should be, and ready[a] when its samples were read and preprocessed. The
 * loader handed all out at @here, when the last of them had been @read. Fills in the loads; returns
 * when the last accelerator has done its step.
 */
uint64_t bench_step_plan(struct bench_step *steps, const uint64_t *ready, size_t nr, uint64_t asked,
			 uint64_t read, uint64_t here);

/*
 * After sleeping until then, at @woke: fills in how long the computes were. Who was not the last
 * would have woken in time.
 */
void bench_step_done(struct bench_step *steps, size_t nr, uint64_t asked, uint64_t woke);

#endif
