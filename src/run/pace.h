/*
 * pace.h - when the batch of a simulated accelerator is complete, and waiting until then.
 *
 * A process may simulate several accelerators. They share one loader, whose batch consists of their
 * batches in turn: exactly what each would read as a rank of its own.
 */
#ifndef SHOAL_RUN_PACE_H
#define SHOAL_RUN_PACE_H

#include "base/clock.h"
#include "run/metrics.h"
#include "workload/workload.h"

/* Sleep until then, or until *@stop is not 0 (returns false). */
bool run_sleep_until(uint64_t ns, const int *stop);

/*
 * Preprocessing: each of an accelerator's workers takes one sample at a time, once it was read and
 * the worker is free, and sleeps. The times are computed, so no thread really sleeps for a sample:
 * only the end of the last one matters.
 */
struct run_workers {
	uint64_t *free_at; /* of each worker, in ns: a heap, earliest first */
	size_t nr;
};

int run_workers_init(struct run_workers *w, size_t nr, struct shoal_err *err) MUST_USE;
void run_workers_release(struct run_workers *w);

/* When the sample that was read at @read and takes @takes ns is done. */
uint64_t run_workers_take(struct run_workers *w, uint64_t read, uint64_t takes);

/*
 * Plan the steps of @nr accelerators that requested their batches at @asked, in ns of the clock:
 * steps[a].planned is the length of each compute, and ready[a] the time when its samples were read
 * and preprocessed. The loader delivered the batch at @here; the last sample had been read at
 * @read. Fills in the loads. Returns the time when the last accelerator has finished its step.
 */
uint64_t run_step_plan(struct run_step *steps, const uint64_t *ready, size_t nr, uint64_t asked,
		       uint64_t read, uint64_t here);

/*
 * After the sleep, which ended at @woke: fill in the actual computes. Accelerators that finish
 * before the last one are assumed to have woken in time.
 */
void run_step_done(struct run_step *steps, size_t nr, uint64_t asked, uint64_t woke);

#endif
