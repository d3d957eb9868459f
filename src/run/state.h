/*
 * state.h - what rank 0 stores on disk, so that a run can be resumed: the identity of the run, and
 * the figures of its phases.
 *
 * The file has the identity first, written once, and then grows by one entry whenever a phase ends,
 * is interrupted, or the run is resumed: each entry costs the same, however many there are. An
 * incomplete or damaged entry at the end, left by a kill or a crash of the machine, does not count
 * and is overwritten.
 */
#ifndef SHOAL_RUN_STATE_H
#define SHOAL_RUN_STATE_H

#include "run/dataset.h"
#include "run/result.h"

struct run_state {
	uint64_t run;           /* a random number that identifies this run */
	uint64_t configuration; /* a hash of everything that must not change */
	uint64_t nr_ranks, nr_accelerators;
	uint64_t seed, started;
	uint64_t kept;            /* the catalogs are in the results folder */
	char data[RUN_DATA_NAME]; /* see run_data_name() */
	/* These change, and are in every entry: */
	struct run_state_now {
		uint64_t resumed, nr_phases;  /* nr_phases: finished ones */
		uint64_t first_batch;         /* ns until it arrived, at the first start */
		char engine[32], detail[256]; /* what read the data */
	} now;
};

/*
 * -ENOENT if there is none; -EPERM if it is not this user's alone. Removes a damaged last entry.
 * Reads up to @max phases, as many as the state has, into @phases.
 * @ret_cut, if the phase after those was interrupted, has its figures; otherwise steps is 0.
 */
int run_state_load(const char *results, struct run_state *ret_state,
		   struct run_result_phase *phases, size_t max, struct run_result_phase *ret_cut,
		   struct shoal_err *err) MUST_USE;
/* Only the identity of the run. */
int run_state_peek(const char *results, struct run_state *ret_state,
		   struct shoal_err *err) MUST_USE;
/* Start the file, with the identity alone. */
int run_state_create(const char *results, const struct run_state *state,
		     struct shoal_err *err) MUST_USE;
/*
 * Append an entry: state->now, and @phase, the last finished one or an interrupted one; NULL: the
 * run was resumed.
 */
int run_state_append(const char *results, const struct run_state *state,
		     const struct run_result_phase *phase, struct shoal_err *err) MUST_USE;

#endif
