/* cmd_run.h - a run of the command: shared by cmd_run.c and run_end.c. */
#ifndef SHOAL_CLI_CMD_RUN_H
#define SHOAL_CLI_CMD_RUN_H

#include "cli/cli.h"
#include "cli/layout_options.h"
#include "cli/listen.h"
#include "cli/load_options.h"
#include "cli/run_screen.h"
#include "cli/trace_options.h"
#include "run/run.h"

struct cmd_run_arguments {
	struct cli_where where;
	const char *workload, *data, *results;
	char **overrides;
	size_t nr_overrides;
	uint64_t accelerators;
	unsigned runs;
	struct cli_layout layout;
	struct cli_listen listen;
	struct cli_trace traces;
	struct shoal_load_options load;
	bool resume, force, dry_run, drop, json;
};

struct cmd_run_state {
	struct cmd_run_arguments a;
	struct comm *comm;
	const struct comm_place *place;
	int rank; /* for the loader's thread, which may outlive the comm */
	struct workload *workload;
	struct run_data data;
	struct run_result result;
	struct run_screen screen;
	struct trace *trace;     /* records the reads, or NULL */
	struct layout tree;      /* if the layout is mlpstorage's */
	char leaf[RUN_PATH_MAX]; /* leaf in the tree, which then replaces --results */
	uint64_t began;
	bool loaded;    /* a loader may remain that waits for reads: do not clean up */
	int lock;       /* lock of the results folder, on rank 0; otherwise -1 */
	unsigned made;  /* rank 0: how many folders of the path --results were missing */
	bool kept;      /* rank 0: a resumed run has its catalogs in the results folder */
	bool unwritten; /* it ran to its end, or was stopped, but results could not be written */
	bool misused;   /* an option does not fit the catalog, or an override is wrong */
	bool misspelt;  /* an override is wrong */
};

/* Rank 0: print the table, or the JSON. An exit status. */
int cmd_run_print(const struct cmd_run_state *c);

/* After a failure: the exit status; rank 0 prints why, and what is left. */
int cmd_run_print_failure(struct cmd_run_state *c, int rc, struct shoal_err *err);

/* After a run to its end: the exit status; rank 0 prints the results. */
int cmd_run_report(struct cmd_run_state *c);

#endif
