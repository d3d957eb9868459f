/*
 * run.h - the step loop: simulated accelerators that load a batch, compute, and wait for each
 * other, epoch after epoch.
 *
 * A process stands for one accelerator or several. All ranks take the same number of steps, so no
 * uneven tail can make one wait for ever. Steps are recorded in the results folder as they are
 * done; a run that was killed goes on behind the last one that all ranks have recorded.
 */
#ifndef SHOAL_BENCH_RUN_H
#define SHOAL_BENCH_RUN_H

#include "bench/dataset.h"
#include "bench/result.h"
#include "bench/steplog.h"
#include "comm/comm.h"

/* How far it is, by what rank 0 sees. */
struct bench_progress {
	uint64_t epoch, nr_epochs; /* from 1 */
	bool eval;
	uint64_t step, steps;                        /* done of this phase */
	double au;                                   /* so far, percent */
	double samples_per_second, bytes_per_second; /* of all accelerators */
	double wait_share;                           /* of the time, waiting for batches */
	double seconds_left;                         /* of the whole run, at this pace */
	uint64_t slowest_rank; /* in the last step, and how long its batch took */
	double slowest_seconds;
};

struct bench_run_options {
	const struct bench_workload *workload;
	const struct bench_data *data;
	const char *data_name; /* as the user calls it; may be NULL */
	struct shoal_comm *comm;
	uint32_t nr_accelerators; /* that this process stands for: the same on all ranks */
	/* Where and how to read; what the workload says of flight, prefetch and slot holds where
	 * these are 0. */
	struct shoal_load_options load;
	bool drop_cache; /* before every epoch and evaluation */
	bool resume;
	const char *results; /* the folder */
	const int *stop; /* the run ends after the step, on all ranks, once it is not 0 anywhere */
	uint64_t began;  /* bench_now() when the command started */
	/* By rank 0, some times a second, in the loop; quick. May be NULL. */
	void (*progress)(void *self, const struct bench_progress *progress);
	void *self;
};

/* A folder of the results' own, for the record of steps and what a resumed run starts from. */
#define BENCH_RUN_FOLDER ".shoal-run"

/* The path of a rank's record of steps. */
int bench_run_log_path(const char *results, int rank, char *buf, size_t cap) SHOAL_MUST_USE;

/*
 * Collective. 0 when all epochs were run, or when they were stopped and @ret_result is marked as
 * partial. After an error @ret_result, on rank 0, has the phases that were finished. To be
 * released in any case; complete on rank 0 only. @err is not NULL.
 */
int bench_run(const struct bench_run_options *o, struct bench_result *ret_result,
	      struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Wait for what a run that was stopped left in flight, which may never end, and close it. Before
 * the data is closed; or never, by a process that ends.
 */
void bench_run_close(struct bench_result *r);

/* Remove what only a resumed run would need: by rank 0, when all results are written. */
void bench_run_forget(const char *results, int nr_ranks);

/* Whether there is a run in @results that can be resumed. */
bool bench_run_can_resume(const char *results);

/*
 * Rank 0: whether that run takes its catalogs from the results folder again. -ESTALE, in words,
 * when it read other data than @data.
 */
int bench_run_check_data(const char *results, const char *data, bool *ret_kept,
			 struct shoal_err *err) SHOAL_MUST_USE;

/*
 * Rank 0, from before anything is written to @results until all of it is: nobody else runs there.
 * Where the file system has no locks one has to know. -EBUSY: somebody does.
 */
int bench_run_lock(const char *results, int *ret_lock, struct shoal_err *err) SHOAL_MUST_USE;

/* When no run can be resumed there, without leaving anything. -1 is fine. */
void bench_run_unlock(const char *results, int lock);

#endif
