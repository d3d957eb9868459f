/*
 * run_begin.h - what a run leaves and tells before its results: what it is, so that one that is
 * killed can be told from others, and the results of the epochs that are over.
 */
#ifndef SHOAL_CLI_RUN_BEGIN_H
#define SHOAL_CLI_RUN_BEGIN_H

#include "cli/listen.h"
#include "run/result.h"

/* Collective: @warn on rank 0 if MLPerf's rules require more data or another cluster. */
struct run_begin_size {
	const struct workload *w;
	struct comm *comm;
	uint64_t accelerators;
	const char *data, *results;
	void (*warn)(void *self, const char *words);
	void *self;
};
int run_begin_check_size(const struct run_begin_size *s, struct shoal_err *err) MUST_USE;

/* What would be run and written, to standard error. */
void run_begin_print(const struct workload *w, uint64_t accelerators, const char *data,
		     const char *folder);

/*
 * Rank 0, before the first step: write begin.json, config.yaml and effective.yaml to @folder; the
 * page is served from here on, with the epochs that a resumed run has already.
 */
int run_begin_write(const struct run_result *r, const char *folder, struct cli_listen *listen,
		    struct shoal_err *err) MUST_USE;

/* Rank 0: phase @i has ended. */
void run_begin_tell(const struct run_result *r, size_t i, const struct cli_listen *listen);

#endif
