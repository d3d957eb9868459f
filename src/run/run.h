/*
 * run.h - the step loop: simulated accelerators that load a batch, compute, and wait for each
 * other, epoch after epoch.
 *
 * A process simulates one accelerator or several. All ranks take the same number of steps, so no
 * uneven tail can make a rank wait forever. Steps are recorded in the results folder as they are
 * done; a run that was killed resumes after the last step that all ranks have recorded.
 */
#ifndef SHOAL_RUN_RUN_H
#define SHOAL_RUN_RUN_H

#include "comm/comm.h"
#include "load/trace.h"
#include "run/dataset.h"
#include "run/folder.h"
#include "run/result.h"
#include "run/steplog.h"
#include "run/watch.h"

/* Progress as seen by rank 0. */
struct run_progress {
	uint64_t epoch, nr_epochs; /* from 1 */
	bool eval;
	uint64_t step, steps; /* done in this phase */
	bool boundary;        /* the phase begins or ends here */
	double au;            /* so far, in percent; NAN: no step counts yet */
	double samples_per_second, bytes_per_second; /* over all accelerators */
	double wait_share;     /* share of the time spent waiting for batches */
	double seconds_left;   /* of the whole run, at this pace */
	uint64_t samples;      /* of all ranks, since this phase went on */
	double share;          /* of the whole run that is done: evaluations do not count */
	uint64_t slowest_rank; /* in the last step, and how long its batch took */
	double slowest_seconds;
};

struct run_options {
	const struct workload *workload;
	const struct run_data *data;
	const char *data_name; /* the user's name for it; may be NULL */
	struct comm *comm;
	uint32_t nr_accelerators; /* simulated by this process: the same on all ranks */
	/*
	 * Where and how to read. The workload's values for in flight, prefetch and slot apply if
	 * these are 0.
	 */
	struct shoal_load_options load;
	bool drop_cache; /* before every epoch and evaluation */
	bool resume;
	const char *results; /* the folder */
	struct trace *trace; /* records the reads, or NULL */
	const int *stop; /* the run ends after the current step, on all ranks, once it is not 0 on
			    any */
	uint64_t began;  /* clock_now() when the command started */
	/*
	 * Called on rank 0, when a phase begins, when it ends, and a few times per second inside
	 * the loop; must be quick. May be NULL.
	 */
	void (*progress)(void *self, const struct run_progress *progress);
	/*
	 * Called on rank 0 before the first step: of the result everything is known that does not
	 * depend on the outcome. And after each phase, the last of the result. May be NULL.
	 */
	int (*begun)(void *self, const struct run_result *r, struct shoal_err *err);
	void (*ended)(void *self, const struct run_result *r);
	void *self;
	struct run_watch *watch; /* NULL: nobody watches the ranks; the same on all ranks */
};

/*
 * Collective. Returns 0 if all epochs were run, or if they were stopped and @ret_result is marked
 * as partial. After an error @ret_result, on rank 0, has the finished phases. Release it in any
 * case; it is complete on rank 0 only. @err is not NULL.
 */
int run_execute(const struct run_options *o, struct run_result *ret_result,
		struct shoal_err *err) MUST_USE;

/*
 * On rank 0: whether that run reuses the catalogs in the results folder. -ESTALE, with a message,
 * if it read other data than @data.
 */
int run_check_data(const char *results, const char *data, bool *ret_kept,
		   struct shoal_err *err) MUST_USE;

#endif
