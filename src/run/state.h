/*
 * state.h - what rank 0 stores on disk, so that a run can be resumed: the identity of the run, and
 * the figures of the finished phases.
 */
#ifndef SHOAL_RUN_STATE_H
#define SHOAL_RUN_STATE_H

#include "run/dataset.h"
#include "run/result.h"

struct run_state {
	uint64_t run;           /* a random number that identifies this run */
	uint64_t configuration; /* a hash of everything that must not change */
	uint64_t nr_ranks, nr_accelerators;
	uint64_t seed, started, resumed, nr_phases;
	uint64_t first_batch;         /* ns until it arrived, at the first start */
	uint64_t kept;                /* the catalogs are in the results folder */
	char data[RUN_DATA_NAME];     /* see run_data_name() */
	char engine[32], detail[256]; /* what read the data */
};

/* -ENOENT if there is none. Reads up to @max phases, as many as the state has, into @phases. */
int run_state_load(const char *results, struct run_state *ret_state,
		   struct run_result_phase *phases, size_t max, struct shoal_err *err) MUST_USE;
/* Only the identity of the run. */
int run_state_peek(const char *results, struct run_state *ret_state,
		   struct shoal_err *err) MUST_USE;
int run_state_save(const char *results, const struct run_state *state,
		   const struct run_result_phase *phases, struct shoal_err *err) MUST_USE;

#endif
