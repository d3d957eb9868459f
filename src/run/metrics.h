/*
 * metrics.h - utilisation and throughput from the times of steps, as DLIO defines them. Pure
 * arithmetic: the same times give the same figures.
 *
 * For each accelerator a step is load (from the request for a batch until it has arrived), then
 * compute (the sleep that simulates it), then a barrier of all, which counts in the wall time only.
 * A block is an uninterrupted part of an epoch: one per epoch, or more if a run was resumed.
 */
#ifndef SHOAL_RUN_METRICS_H
#define SHOAL_RUN_METRICS_H

#include "base/err.h"

/* One step of one accelerator, in ns. */
struct run_step {
	uint64_t asked;   /* when its batch was requested, from the start of the block */
	uint64_t load;    /* until the batch arrived */
	uint64_t compute; /* the actual sleep */
	uint64_t planned; /* the planned sleep */
	uint64_t errors;  /* samples of the batch that could not be read and were left out */
};

/* Steps at both ends of a block that do not count: the first one fills the pipeline. */
struct step_window {
	uint64_t exclude_start, exclude_end;
};

/* A block of one accelerator, summed step by step. */
struct step_block {
	uint64_t nr_steps; /* of the block: known before the first is added */
	struct step_window window;
	uint64_t nr_added;
	/* Over the steps in the window, and (proc: load and compute) over those outside: */
	uint64_t nr_inside, compute_inside, planned_inside, proc_outside;
	uint64_t load, compute, planned; /* of all steps */
	uint64_t errors, errors_inside;  /* unread samples, which count in no rate */
};

/* The resulting figures. */
struct step_figures {
	double au;         /* percent */
	double au_planned; /* the same from the planned sleeps: not inflated by late wake-ups */
	double throughput; /* samples per second */
};

void step_block_start(struct step_block *b, uint64_t nr_steps, struct step_window window);
void step_block_add(struct step_block *b, const struct run_step *step);

/*
 * The figures after the last step of @batch samples, for a block that took @wall ns. 0 if no time
 * or step is left in the window.
 */
struct step_figures step_block_figures(const struct step_block *b, uint64_t batch, uint64_t wall);

/* Evaluation: utilisation as above, but throughput over all steps and the whole time. */
struct step_figures step_eval_figures(const struct step_block *b, uint64_t batch, uint64_t wall);

/* The mean of an epoch's blocks, weighted by steps: add each, then divide. */
struct step_mean {
	struct step_figures sum;
	uint64_t weight;
};

void step_mean_add(struct step_mean *m, const struct step_figures *f, uint64_t steps);
struct step_figures step_mean_figures(const struct step_mean *m);

/* Mean and population deviation; 0 without values. */
void step_mean_stdev(const double *values, size_t nr, double *ret_mean, double *ret_stdev);

#endif
