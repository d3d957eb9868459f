/*
 * folder.h - folders of results: the names of all files there, and which process may write to one.
 *
 * A folder has the results of one command. Those of a run are begin.json, summary.json,
 * config.yaml, effective.yaml, the files of each rank, and the catalogs that the run made itself.
 * Files that only a resumed run needs are in the subfolder ".shoal-run": the state, the step log of
 * each rank and the lock. It is removed when the run is complete.
 */
#ifndef SHOAL_RUN_FOLDER_H
#define SHOAL_RUN_FOLDER_H

#include "base/err.h"
#include "base/results.h"

#define RUN_PATH_MAX 4096

/* The files that a folder may hold. */
enum run_file {
	/* The result of each command. That of a run is written when it ends or is interrupted. */
	RUN_FILE_SUMMARY,
	RUN_FILE_READ,
	RUN_FILE_INDEX,
	RUN_FILE_DATAGEN,
	RUN_FILE_SWEEP,
	/* Written before a command begins. */
	RUN_FILE_BEGIN,
	RUN_FILE_CONFIG,
	RUN_FILE_EFFECTIVE,
	RUN_FILE_PLAN, /* of a sweep */

	RUN_FILE_PAGE,
	RUN_FILE_TRAIN_CATALOG, /* train.shoal */
	RUN_FILE_EVAL_CATALOG,  /* valid.shoal */
	RUN_FILE_COPY,          /* catalog.shoal: a copy of a catalog in a bucket */
	RUN_FILE_STATE,
	RUN_FILE_LOCK,
};

const char *run_file_name(enum run_file file);

/* The file that has the result of @command, such as "read". */
enum run_file run_file_of(const char *command);

/* The files of each rank, in DLIO's format: RANK_output.json and RANK_per_epoch_stats.json. */
#define RUN_RANK_OUTPUT "output"
#define RUN_RANK_STATS  "per_epoch_stats"
struct run_rank_name {
	char text[64];
};
struct run_rank_name run_rank_file_name(uint64_t rank, const char *kind);

/*
 * The one rule for all commands: a folder with the results of another command than @command is
 * left alone; so is, with NULL, one with any results. -EEXIST, with a message.
 */
int run_folder_check_others(const char *results, const char *command,
			    struct shoal_err *err) MUST_USE;

/* The path of @file below the folder @results. -ENAMETOOLONG, with a message. */
int run_file_path(const char *results, enum run_file file, char buf[RUN_PATH_MAX],
		  struct shoal_err *err) MUST_USE;

/* The path of a rank's step log. */
/* The time series of a rank: docs/format/series.md. */
#define RUN_SERIES_PREFIX RESULTS_SERIES
int run_series_path(const char *results, int rank, char buf[RUN_PATH_MAX],
		    struct shoal_err *err) MUST_USE;

int run_step_log_path(const char *results, int rank, char buf[RUN_PATH_MAX],
		      struct shoal_err *err) MUST_USE;

/*
 * On rank 0: make the folder if it is missing, take its lock, and check that it holds no other
 * results: with @resume there must be a run to resume, and with @force there may be those of
 * another run, which run_folder_clear() removes once nothing else can be refused. The lock is held
 * from before anything is written until everything is; on a file system without locks this has no
 * effect. -EBUSY: another run is writing there. *@ret_lock is set on failure, too, if the lock was
 * taken.
 */
int run_folder_open(const char *results, bool resume, bool force, int *ret_lock,
		    struct shoal_err *err) MUST_USE;

/* After run_folder_open() with force: remove what an earlier run left, whatever its number of
 * ranks. Catalogs that this run has made meanwhile stay. Without it run_folder_close() puts
 * everything back. */
int run_folder_clear(const char *results, struct shoal_err *err) MUST_USE;

/* Whether run_folder_open() would refuse the folder because of other results. Writes nothing. */
int run_folder_check(const char *results, bool resume, struct shoal_err *err) MUST_USE;

/* Release the lock; remove the subfolder if no run can be resumed there. -1 is fine. */
void run_folder_close(const char *results, int lock);

/* Make the subfolder for the state and the step logs. */
int run_folder_begin(const char *results, struct shoal_err *err) MUST_USE;

/* On rank 0, once all results are written: remove the files that only a resumed run needs. */
void run_folder_finish(const char *results, int nr_ranks);

/* Whether files below @data, a directory or a URI, are on the file system of the folder. */
bool run_folder_shares_device(const char *results, const char *data);

/* Whether there is a run in @results that can be resumed. */
bool run_can_resume(const char *results);

#endif
