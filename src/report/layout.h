/*
 * layout.h - results as a tree that mlpstorage's report generator and submission checker read:
 *
 *   ROOT/DIVISION/ORGANIZATION/results/SYSTEM/training/MODEL/{datagen,run}/YYYYMMDD_HHMMSS/
 *
 * The files that are added here turn a results folder of a run into such a leaf. The metadata come
 * last: a leaf without them is incomplete. Each leaf states that Shoal made it, and that it is not
 * an MLPerf submission.
 */
#ifndef SHOAL_REPORT_LAYOUT_H
#define SHOAL_REPORT_LAYOUT_H

#include "run/folder.h"
#include "run/result.h"

/* The names of a leaf's files that are added to those of run/folder.h. */
#define LAYOUT_LOG        "dlio.log"
#define LAYOUT_PROVENANCE "provenance.json"
#define LAYOUT_HYDRA_DIR  "dlio_config"
#define LAYOUT_CONFIG     "config.yaml"
#define LAYOUT_HYDRA      "hydra.yaml"
#define LAYOUT_OVERRIDES  "overrides.yaml"

/* Beside the leaves: a row for each of them. */
#define LAYOUT_RESULTS "results.json"

struct layout {
	const char *root, *organization, *system;
	bool open;  /* the division "open", otherwise "closed" */
	bool newer; /* the rules of September 2026, which require datasize/ and a pool of code */
};

/* What a leaf contains. */
struct layout_job {
	const char *command; /* "run", "datagen" or "datasize" */
	const struct workload *workload;
	char *const *overrides; /* KEY=VALUE */
	size_t nr_overrides;
	const char *data;                /* the user's name for the data */
	bool objects;                    /* the data is in a bucket */
	const struct run_result *result; /* for a run; otherwise NULL */
	uint64_t nr_processes;
	const char *text; /* what the command has printed, for its log */
};

/* Whether the names are valid in a tree: letters, digits, '.', '_' and '-'. -EINVAL. */
int layout_check(const struct layout *l, struct shoal_err *err) MUST_USE;

/*
 * Make the directory of a new leaf, named by the time in UTC; if that name is taken, wait for the
 * next second. Missing directories and files above it are made.
 */
int layout_leaf(const struct layout *l, const char *model, const char *command,
		char ret_leaf[RUN_PATH_MAX], struct shoal_err *err) MUST_USE;

/*
 * Add a leaf's files to the results of a run, or to an empty leaf. For a run, its results.json is
 * rewritten.
 */
int layout_write(const struct layout *l, const char *leaf, const struct layout_job *job,
		 struct shoal_err *err) MUST_USE;

#endif
