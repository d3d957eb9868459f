/*
 * run_state.h - what rank 0 keeps on disk of a run, so that it can be resumed: which run it is, and
 * the figures of the phases that are finished.
 */
#ifndef SHOAL_BENCH_RUN_STATE_H
#define SHOAL_BENCH_RUN_STATE_H

#include "bench/dataset.h"
#include "bench/result.h"

struct run_state {
	uint64_t run;           /* a number that tells this run from others */
	uint64_t configuration; /* a hash of all that must not change */
	uint64_t nr_ranks, nr_accelerators;
	uint64_t seed, started, resumed, nr_phases;
	uint64_t first_batch;         /* ns until it was there, of the first start */
	uint64_t kept;                /* the catalogs are in the results folder */
	char data[BENCH_DATA_NAME];   /* see bench_data_name() */
	char engine[32], detail[256]; /* what read it */
};

/* -ENOENT when there is none. Up to @max phases, as many as the state says, into @phases. */
int run_state_load(const char *results, struct run_state *ret_state, struct bench_phase *phases,
		   size_t max, struct shoal_err *err) SHOAL_MUST_USE;
/* Only which run it is. */
int run_state_peek(const char *results, struct run_state *ret_state,
		   struct shoal_err *err) SHOAL_MUST_USE;
int run_state_save(const char *results, const struct run_state *state,
		   const struct bench_phase *phases, struct shoal_err *err) SHOAL_MUST_USE;

#endif
