/* run_private.h - shared by run.c, the whole run, and steps.c, one phase. */
#ifndef SHOAL_RUN_RUN_PRIVATE_H
#define SHOAL_RUN_RUN_PRIVATE_H

#include "datagen/datasize.h"
#include "load/tally.h"
#include "run/node.h"
#include "run/pace.h"
#include "run/run.h"
#include "run/series.h"
#include "run/state.h"

struct run {
	const struct run_options *o;
	const struct workload *w;
	struct comm *comm;
	struct comm_fast *fast; /* after every step */
	struct datasize_plan plan;
	uint64_t nr_ranks, rank, nr_here,
		nr_all; /* processes; accelerators of this process, and of all */
	struct run_state state;
	struct run_result_phase
		cut; /* of a resumed run: its interrupted phase, if steps is not 0 */
	struct step_log log;
	struct series *series;          /* NULL after an error, which must not end a run */
	struct shoal_load_options load; /* the resolved options of the loaders */
	uint64_t read_threads;          /* per accelerator */
	struct shoal_loader *loader;    /* of training: kept across epochs */
	/* Per accelerator of this process: */
	struct run_step *steps;
	uint64_t *ready;
	struct run_workers *workers; /* NULL without preprocessing */
	struct step_block *blocks;
	struct step_mean *means;
	struct load_tally tally;        /* of the current phase */
	uint64_t first_batch;           /* when it arrived: clock_now() */
	uint64_t pool_bytes, pss_bytes; /* of this rank, maximum */
	struct run_result *result;
};

/* An epoch of training, or an evaluation, while it runs. */
struct phase {
	struct run_result_phase *p; /* its results */
	const struct run_data_part *part;
	struct shoal_loader *loader;
	uint64_t batch; /* samples per accelerator and step; rows if groups of rows are read */
	uint64_t take;  /* samples of the catalog per accelerator in a batch of the loader */
	const struct workload_time *compute;
	uint64_t first_step, steps; /* done before this block; of the whole phase */
	uint64_t started;           /* clock_now() */
	uint64_t started_at;        /* ns since 1970 */
	uint64_t nr_done;           /* in this block */
	bool stopped;
	/* The loader's batches that are in use: one, or as many groups as a step needs. */
	const struct shoal_batch **held;
	size_t nr_held, held_cap;
	struct run_audit delivered; /* by this rank, in the steps that all have done */
	/* For progress, of this process: */
	uint64_t compute_ns, load_ns, outside_ns, shown;
	uint64_t slowest_ns, slowest_sample; /* of the slowest sample read here */
	uint64_t step_slowest; /* slowest rank in the last step over all: us and rank */
};

/* The name of an order in the results. */
const char *run_order_name(const struct workload *w, const struct run_data_part *part);

/* ---- groups.c ---- */

/* How many samples of the catalog an accelerator has taken before step @step of the phase. */
uint64_t run_taken_before(const struct run *run, const struct phase *phase, uint64_t step);

/* Choose phase->take, and room for the batches of a step. */
int run_groups_start(const struct run *run, struct phase *phase, struct shoal_err *err) MUST_USE;

/* The loader's batches in @steps batches of the workload, rounded up. */
uint64_t run_loader_batches(const struct phase *phase, uint64_t steps);

/* Collective: run the remaining steps of a phase, and write the results to phase->p. */
int run_phase(struct run *run, struct phase *phase, struct shoal_err *err) MUST_USE;

/* Collective: compute the figures of phase->p from the step log. */
int run_figures(struct run *run, struct phase *phase, struct shoal_err *err) MUST_USE;

/* Open a loader for the phase. */
int run_open_loader(struct run *run, const struct phase *phase, struct shoal_loader **ret_loader,
		    struct shoal_err *err) MUST_USE;

/*
 * Record what this rank was given, after a step that all ranks have done: a rank that is stopped in
 * the middle of a step may have taken a batch that belongs to no recorded step.
 */
void run_audit_note(struct phase *phase);

/*
 * Collective, after the tally: store the audit and the proof in phase->p. If the phase was
 * interrupted before and the audit of that part was saved, it covers both.
 */
int run_audit_take(const struct run *run, const struct phase *phase,
		   struct shoal_err *err) MUST_USE;

#endif
