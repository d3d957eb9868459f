/*
 * metrics.h - utilisation and throughput from the times of steps, as DLIO defines them. Pure
 * arithmetic: the same times give the same figures, whoever recorded them.
 *
 * For each accelerator a step is load (from asking for a batch until it is there), then compute
 * (the sleep that stands for it), then a barrier of all, which counts in the wall time only. A
 * block is a stretch of an epoch without a break: one an epoch, or more where a run was resumed.
 */
#ifndef SHOAL_BENCH_METRICS_H
#define SHOAL_BENCH_METRICS_H

#include "base/err.h"

/* One step of one accelerator, in ns. */
struct bench_step {
	uint64_t asked;   /* for its batch, from the start of the block on */
	uint64_t load;    /* until the batch was there */
	uint64_t compute; /* the sleep, as long as it really was */
	uint64_t planned; /* the sleep, as long as it should have been */
	uint64_t errors;  /* samples of the batch that could not be read, and were left out */
};

/* Steps at both ends of a block that do not count: the first fills the pipeline. */
struct bench_window {
	uint64_t exclude_start, exclude_end;
};

/* A block of one accelerator, as its steps are added. */
struct bench_block {
	uint64_t nr_steps; /* of the block: known before the first is added */
	struct bench_window window;
	uint64_t nr_added;
	/* Of the steps in the window, and (proc: load and compute) of those outside: */
	uint64_t nr_inside, compute_inside, planned_inside, proc_outside;
	uint64_t load;                  /* of all */
	uint64_t errors, errors_inside; /* samples that were not read: they count in no rate */
};

/* What it comes to. */
struct bench_figures {
	double au;         /* percent */
	double au_planned; /* the same from the planned sleeps: a late waking does not flatter it */
	double throughput; /* samples a second */
};

void bench_block_start(struct bench_block *b, uint64_t nr_steps, struct bench_window window);
void bench_block_add(struct bench_block *b, const struct bench_step *step);

/* After the last step of @batch samples, of a block that took @wall ns. 0 where nothing is left. */
struct bench_figures bench_block_figures(const struct bench_block *b, uint64_t batch,
					 uint64_t wall);

/* Evaluation: utilisation as above, but the throughput is that of all steps in all the time. */
struct bench_figures bench_eval_figures(const struct bench_block *b, uint64_t batch, uint64_t wall);

/* The mean of an epoch's blocks, by their steps: add each, then divide. */
struct bench_mean {
	struct bench_figures sum;
	uint64_t weight;
};

void bench_mean_add(struct bench_mean *m, const struct bench_figures *f, uint64_t steps);
struct bench_figures bench_mean_figures(const struct bench_mean *m);

/* Mean and population deviation. 0 of nothing. */
void bench_mean_stdev(const double *values, size_t nr, double *ret_mean, double *ret_stdev);

#endif
