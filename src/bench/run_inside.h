/* run_inside.h - what the parts of a run share: run.c, the whole of it, and steps.c, one phase. */
#ifndef SHOAL_BENCH_RUN_INSIDE_H
#define SHOAL_BENCH_RUN_INSIDE_H

#include "bench/datasize.h"
#include "bench/node.h"
#include "bench/pace.h"
#include "bench/run.h"
#include "bench/run_state.h"
#include "bench/tally.h"

struct run {
	const struct bench_run_options *o;
	const struct bench_workload *w;
	struct shoal_comm *comm;
	struct shoal_comm_meeting *meeting; /* behind every step */
	struct bench_plan plan;
	uint64_t nr_ranks, rank, nr_here, nr_all; /* processes; accelerators here, and in all */
	struct run_state state;
	struct bench_log log;
	struct shoal_load_options load; /* what loaders are opened with, nothing left open */
	uint64_t read_threads;          /* of an accelerator */
	struct shoal_loader *loader;    /* of training: kept from epoch to epoch */
	/* For each accelerator of this process: */
	struct bench_step *steps;
	uint64_t *ready;
	struct bench_workers *workers; /* NULL without preprocessing */
	struct bench_block *blocks;
	struct bench_mean *means;
	struct bench_tally tally;       /* of the phase */
	uint64_t first_batch;           /* when it was there: bench_now() */
	uint64_t pool_bytes, pss_bytes; /* of this rank, the most there were */
	struct bench_result *result;
};

/* An epoch of training, or an evaluation, as it goes. */
struct phase {
	struct bench_phase *p; /* what it comes to */
	const struct bench_part *part;
	struct shoal_loader *loader;
	uint64_t batch; /* samples of one accelerator in a step */
	const struct bench_time *compute;
	uint64_t first_step, steps; /* done before this block; of the whole phase */
	uint64_t started;           /* bench_now() */
	uint64_t started_at;        /* ns since 1970 */
	uint64_t nr_done;           /* in this block */
	bool stopped;
	const struct shoal_batch *held; /* that is computed on */
	/* For progress, of this process: */
	uint64_t compute_ns, load_ns, outside_ns, shown;
	uint64_t slowest_ns, slowest_sample; /* a sample that was read here */
	uint64_t step_slowest;               /* in the last step of all: us, and the rank */
};

/* What an order is called in results. */
const char *run_order_name(const struct bench_workload *w);

/* Collective: the steps of a phase that are left, and what they come to, into phase->p. */
int run_phase(struct run *run, struct phase *phase, struct shoal_err *err) SHOAL_MUST_USE;

/* Collective: the figures of phase->p, from the record of steps. */
int run_figures(struct run *run, struct phase *phase, struct shoal_err *err) SHOAL_MUST_USE;

/* A loader for the phase. */
int run_open_loader(struct run *run, const struct phase *phase, struct shoal_loader **ret_loader,
		    struct shoal_err *err) SHOAL_MUST_USE;

uint64_t run_wall_clock(void); /* ns since 1970 */

#endif
