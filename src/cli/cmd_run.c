/* shoal run: a training workload with simulated accelerators. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/text.h"
#include "cli/cmd_run.h"
#include "cli/commands.h"
#include "cli/compare_ranks.h"
#include "cli/hints.h"
#include "cli/run_begin.h"
#include "cli/s3_options.h"
#include "cli/workload_options.h"
#include "datagen/datasize.h"
#include "load/loader.h"
#include "report/report.h"
#include "run/pace.h"
#include "run/run.h"
#include "store/uri.h"

/* More in one process than any test of a machine needs; their memory is allocated at once. */
#define ACCELERATORS_MAX 4096

/* A wait for other ranks that lasts longer is reported. */
#define STALL_SECONDS 30.0

/* ---- Options ---- */

static bool is_synthetic(const struct cmd_run_arguments *a)
{
	return a->load.store && store_uri_traits(a->load.store).synthetic;
}

/* Check arguments that are not options, and combinations. CLI_OK, or the exit status. */
static int cmd_run_check(struct cmd_run_arguments *a, int nr, char **words)
{
	a->workload = words[0];
	a->overrides = words + 1;
	a->nr_overrides = (size_t)nr - 1;
	for (size_t i = 0; i < a->nr_overrides; i++)
		if (!strchr(a->overrides[i], '='))
			return cli_usage("run", "'%s' is not KEY=VALUE", a->overrides[i]);
	if (!a->results)
		return cli_usage("run", "say where the results go: --results DIR");
	if (!*a->results)
		return cli_usage("run", "--results is empty");
	if (!a->data && !a->load.store)
		return cli_usage("run", "say where the data is: --data DIR, URI or CATALOG");
	if (!a->data && !is_synthetic(a)) { /* the kind of @data is found by looking at it */
		a->data = a->load.store;
		a->load.store = NULL;
	}
	if (a->resume && a->force)
		return cli_usage("run", "--resume and --force exclude each other");
	return cli_s3_check_uri("run", a->data);
}

static int cmd_run_check_layout(const struct cmd_run_arguments *a)
{
	if (a->runs > 1 && a->layout.kind == LAYOUT_PLAIN)
		return cli_usage("run", "--runs needs --results-layout mlpstorage, which has a "
					"directory for each run");
	if (a->runs > 1 && (a->traces.trace || a->traces.log))
		return cli_usage("run", "--trace and --op-log are for one run, not for --runs %u",
				 a->runs);
	if (a->resume && a->layout.kind != LAYOUT_PLAIN)
		return cli_usage("run",
				 "--resume cannot be combined with --results-layout mlpstorage: a "
				 "run that was interrupted does not count, start again");
	return cli_layout_check_place("run", &a->layout, a->results, a->data);
}

/* ---- Output during the run; by rank 0, except for stalled reads ---- */

static void cmd_run_show_progress(void *self, const struct run_progress *p)
{
	run_screen_show(&((struct cmd_run_state *)self)->screen, p);
}

static void show_index(void *self, const struct shoal_index_progress *p)
{
	struct cmd_run_state *c = self;

	cli_progress_show_index(&c->screen.line, p, 0);
}

static void show_words(void *self, const char *words)
{
	struct cmd_run_state *c = self;

	if (c->place->rank == 0)
		run_screen_say(&c->screen, words);
}

static void cmd_run_show_warning(void *self, const char *words)
{
	struct cmd_run_state *c = self;

	if (c->place->rank == 0)
		cli_warn("run", "%s", words);
}

/* Called on the loader's thread: print only in one call. */
static void show_stalled_read(void *self, const char *words)
{
	const struct cmd_run_state *c = self;

	cli_fail("run", "rank %d: %s", c->rank, words);
}

/* While the loader waits, possibly for ever: check whether another rank has failed. */
static int cmd_run_wait(void *self, struct shoal_err *err)
{
	struct cmd_run_state *c = self;
	struct comm_mail mail;
	int rc = c->place->size > 1 ? comm_poll(c->comm, 0, &mail, err) : 0;

	if (c->place->rank == 0)
		run_screen_wait(&c->screen);

	if (rc == 1)
		(void)run_watch_mail(&c->a.listen.watch, &mail);
	return rc < 0 ? rc : 0;
}

/* ---- The results folder ---- */

/* Collective: a new leaf is the results folder from here on. */
static int begin_leaf(struct cmd_run_state *c, struct shoal_err *err)
{
	int rc;

	if (c->a.layout.kind == LAYOUT_PLAIN)
		return 0;
	rc = cli_layout_leaf(&c->tree, c->comm, c->workload->model, "run", c->leaf, err);
	c->a.results = c->leaf;
	return rc;
}

/* Rank 0. */
static int check_folder(struct cmd_run_state *c, struct shoal_err *err)
{
	int rc;

	c->made = path_count_missing(c->a.results);
	rc = run_folder_open(c->a.results, c->a.resume, c->a.force, &c->lock, err);
	if (rc == 0 && c->a.resume)
		rc = run_check_data(c->a.results, c->a.data, &c->kept, err);
	return rc;
}

/* ---- Running ---- */

static int load_workload(struct cmd_run_state *c, struct shoal_err *err)
{
	int rc = workload_load(c->a.workload, c->a.overrides, c->a.nr_overrides,
			       cmd_run_show_warning, c, &c->workload, err);

	c->misspelt = cli_is_wrong_workload(rc, err, c->a.workload, c->a.nr_overrides);
	c->misused = c->misspelt;
	if (rc == 0 && !c->workload->workflow.train)
		rc = err_set(err, -EINVAL,
			     "the workload does not train (workflow.train is false): there is "
			     "nothing to run");
	if (rc == 0 && c->workload->workflow.checkpoint)
		show_words(c,
			   "the workload's checkpoints (workflow.checkpoint) are not written: this "
			   "run cannot be a success");
	return rc;
}

static int open_data(struct cmd_run_state *c, struct shoal_err *err)
{
	struct run_data_options o = { .data = c->a.data,
				      .store = c->a.load.store,
				      .synthetic = is_synthetic(&c->a),
				      .etags = c->a.load.if_match && c->a.data &&
					       store_uri_traits(c->a.data).objects,
				      .folder = c->a.results,
				      .reuse = c->kept,
				      .object_size = c->a.load.object_size,
				      .stop = &cli_stop,
				      .open = cli_catalog_options(&c->a.where),
				      .progress = show_index,
				      .say = show_words,
				      .self = c };
	int rc;

	/* Until the first step a signal ends everything; after that the run ends after a step. */
	comm_defer_stop(c->comm, false);
	rc = run_data_open(&c->data, c->comm, c->workload, &o, err);
	comm_defer_stop(c->comm, true);
	run_screen_clear(&c->screen);
	return rc;
}

/* Before any part of the run exists. All ranks see the same catalogs. */
static int cmd_run_check_use(struct cmd_run_state *c, struct shoal_err *err)
{
	const char *store = c->a.load.store ? c->a.load.store : c->data.store;
	const struct shoal_catalog *const cats[] = { c->data.cat, c->data.cat_eval };
	int rc = load_check_place(store ? store : c->data.root, &c->a.load, c->a.drop, err);

	for (size_t i = 0; i < ARRAY_LEN(cats); i++)
		if (rc == 0 && c->a.load.if_match && cats[i])
			rc = load_check_etags(cats[i], store, err);
	c->misused = rc < 0;
	if (rc < 0)
		comm_fail(c->comm, err);
	else if (c->workload->reader.odirect &&
		 store_uri_traits(store ? store : c->data.root).objects)
		show_words(c, "reader.odirect is ignored: objects in a bucket are not in the page "
			      "cache");
	return rc;
}

/* Collective. */
static int note_size(struct cmd_run_state *c, struct shoal_err *err)
{
	struct run_begin_size size = { .w = c->workload,
				       .comm = c->comm,
				       .accelerators = (uint64_t)c->place->size * c->a.accelerators,
				       .data = c->a.load.store ? c->a.load.store : c->data.root,
				       .results = c->a.results,
				       .warn = cmd_run_show_warning,
				       .self = c };

	return is_synthetic(&c->a) ? 0 : run_begin_check_size(&size, err);
}

/* Collective. */
static int cmd_run_open_trace(struct cmd_run_state *c, struct shoal_err *err)
{
	const char *store = c->a.load.store ? c->a.load.store : c->data.store;

	return cli_trace_open(&c->a.traces, store ? store : c->data.root, c->comm, &c->trace, err);
}

/* Rank 0, before the first step. */
static int cmd_run_begun(void *self, const struct run_result *r, struct shoal_err *err)
{
	struct cmd_run_state *c = self;

	return run_begin_write(r, c->a.results, &c->a.listen, err);
}

/* Rank 0, after each phase. */
static void cmd_run_ended(void *self, const struct run_result *r)
{
	struct cmd_run_state *c = self;

	run_screen_end(&c->screen, &r->phases[r->nr_phases - 1]);
	run_begin_tell(r, r->nr_phases - 1, &c->a.listen);
}

static int run_steps(struct cmd_run_state *c, struct shoal_err *err)
{
	struct run_options o = { .workload = c->workload,
				 .data = &c->data,
				 .data_name = c->a.data,
				 .comm = c->comm,
				 .nr_accelerators = (uint32_t)c->a.accelerators,
				 .load = c->a.load,
				 .drop_cache = c->a.drop,
				 .resume = c->a.resume,
				 .results = c->a.results,
				 .trace = c->trace,
				 .stop = &cli_stop,
				 .began = c->began,
				 .progress = cmd_run_show_progress,
				 .begun = cmd_run_begun,
				 .ended = cmd_run_ended,
				 .self = c,
				 .watch = cli_listen_watch(&c->a.listen) };

	if (!o.load.store)
		o.load.store = c->data.store;
	if (c->place->size > 1 || c->screen.line.viewed)
		o.load.waiting = cmd_run_wait;
	o.load.config = &c->a.where.config;
	o.load.stalled = show_stalled_read;
	o.load.self = c;
	c->loaded = true;
	return run_execute(&o, &c->result, err);
}

/*
 * Every rank writes its own files, from its step log; then rank 0 writes the summary. In an
 * interrupted run the summary comes first: launchers kill all ranks a few seconds after the signal.
 */
static int write_results(struct cmd_run_state *c, struct shoal_err *err)
{
	struct step_log log = STEP_LOG_CLOSED;
	uint32_t nr = (uint32_t)c->a.accelerators;
	char path[RUN_PATH_MAX];
	int rc = 0;

	if (c->place->rank == 0 && c->result.partial) {
		rc = report_summary_write(&c->result, c->a.results, err);
		run_screen_clear(&c->screen);
		cmd_run_print(c);
		cli_flush_output();
	}
	if (rc == 0)
		rc = run_step_log_path(c->a.results, c->place->rank, path, err);
	if (rc == 0)
		rc = step_log_open(path, c->result.run, nr, &log, err);
	if (rc == 0)
		rc = report_ranks_write(&c->result, &log, (uint64_t)c->place->rank * nr,
					(uint64_t)c->place->nr_nodes, c->a.results, err);
	step_log_close(&log);
	if (rc < 0)
		comm_fail(c->comm, err);
	else
		rc = comm_barrier(c->comm, err); /* all files exist */
	if (rc == 0 && c->place->rank == 0 && !c->result.partial) {
		rc = report_summary_write(&c->result, c->a.results, err);
		if (rc < 0)
			comm_fail(c->comm, err);
		else
			run_folder_finish(c->a.results, c->place->size);
	}
	return rc;
}

/* Rank 0, after a complete run: the files that make its folder a leaf of the tree. */
static int write_leaf(const struct cmd_run_state *c, const char *command, const char *leaf,
		      struct shoal_err *err)
{
	const char *place = c->a.load.store ? c->a.load.store : c->data.root;
	bool is_run = strcmp(command, "run") == 0;
	char *words = NULL;
	int rc = is_run ? report_table_text(&c->result, false, 0, &words, err) : 0;

	if (rc == 0) {
		struct layout_job job = { .command = command,
					  .workload = c->workload,
					  .overrides = c->a.overrides,
					  .nr_overrides = c->a.nr_overrides,
					  .data = c->a.data ? c->a.data : place,
					  .objects = store_uri_traits(place).objects,
					  .result = is_run ? &c->result : NULL,
					  .nr_processes =
						  (uint64_t)c->place->size * c->a.accelerators,
					  .text = words ? words : "" };

		rc = layout_write(&c->tree, leaf, &job, err);
	}
	free(words);
	return rc;
}

/* Rank 0: newer rules require a datasize leaf, which each run computes before it starts. */
static int write_datasize_leaf(const struct cmd_run_state *c, struct shoal_err *err)
{
	char leaf[RUN_PATH_MAX];
	int rc;

	if (c->a.layout.kind != LAYOUT_MLPSTORAGE_NEWER || c->place->rank > 0)
		return 0;
	rc = layout_leaf(&c->tree, c->workload->model, "datasize", leaf, err);
	return rc < 0 ? rc : write_leaf(c, "datasize", leaf, err);
}

/* Collective: rank 0's @rc for all. */
static int cmd_run_agree(struct cmd_run_state *c, int rc, struct shoal_err *err)
{
	if (rc < 0) {
		comm_fail(c->comm, err);
		return rc;
	}
	return comm_barrier(c->comm, err);
}

static void describe_run(FILE *f, const void *self)
{
	const struct cmd_run_state *c = self;

	fprintf(f,
		"dry-run: %d\nlisten: %s\nop-log: %s\ntrace: %s\nresults: %s\nresults-layout: %d\n"
		"runs: %u\nforce: %d\naccelerators: %" PRIu64 "\nresume: %d\ndrop-cache: %d\n",
		c->a.dry_run, cli_or_none(c->a.listen.address), cli_or_none(c->a.traces.log),
		cli_or_none(c->a.traces.trace), c->a.results, (int)c->a.layout.kind, c->a.runs,
		c->a.force, c->a.accelerators, c->a.resume, c->a.drop);
	load_describe(f, &c->a.load);
	fputs(c->workload->yaml, f);
}

static void describe_catalogs(FILE *f, const void *self)
{
	const struct cmd_run_state *c = self;
	const struct shoal_catalog *const cats[] = { c->data.cat, c->data.cat_eval };

	for (size_t i = 0; i < ARRAY_LEN(cats); i++) {
		struct shoal_catalog_info info;

		if (!cats[i])
			continue;
		shoal_catalog_info(cats[i], &info);
		fprintf(f, "catalog: %s of %" PRIu64 " files\n", info.digest, info.nr_files);
	}
}

/* Rank 0, with --dry-run. */
static int print_plan(const struct cmd_run_state *c, struct shoal_err *err)
{
	int rc = c->a.force || c->a.layout.kind != LAYOUT_PLAIN
			 ? 0
			 : run_folder_check(c->a.results, c->a.resume, err);
	const char *data = c->a.data ? c->a.data : c->a.load.store;

	if (rc == 0)
		rc = cli_trace_try(&c->a.traces, data, err);
	if (rc < 0)
		return rc;
	run_begin_print(c->workload, c->a.accelerators * (uint64_t)c->place->size, data,
			c->a.results);
	return 0;
}

/* Everything before the first step of the first run. */
static int cmd_run_prepare(struct cmd_run_state *c, struct shoal_err *err)
{
	int rc = cmd_run_agree(c, load_workload(c, err), err);

	if (rc == 0) /* before anything that only some of them would take part in */
		rc = cli_compare_ranks(c->comm, describe_run, c, err);
	if (rc == 0 && c->a.dry_run)
		return cmd_run_agree(c, c->place->rank == 0 ? print_plan(c, err) : 0, err);
	if (rc == 0)
		rc = cli_listen_open(&c->a.listen, "run", c->comm, err);
	if (rc == 0)
		rc = begin_leaf(c, err);
	if (rc == 0 && c->place->rank == 0)
		rc = check_folder(c, err);
	rc = cmd_run_agree(c, rc, err);
	if (rc == 0)
		rc = open_data(c, err);
	if (rc == 0)
		rc = cli_compare_ranks(c->comm, describe_catalogs, c, err);
	if (rc == 0)
		rc = cmd_run_check_use(c, err);
	if (rc == 0)
		rc = note_size(c, err);
	if (rc == 0)
		rc = cmd_run_agree(c, write_datasize_leaf(c, err), err);
	return rc;
}

static int cmd_run_run(struct cmd_run_state *c, struct shoal_err *err)
{
	int rc = cmd_run_open_trace(c, err);

	if (rc == 0 && c->a.force) /* now that nothing else can be refused */
		rc = cmd_run_agree(c, c->place->rank == 0 ? run_folder_clear(c->a.results, err) : 0,
				   err);
	if (rc == 0)
		rc = run_steps(c, err);
	if (rc == 0) {
		bool leaf = c->a.layout.kind != LAYOUT_PLAIN && !c->result.partial;

		rc = write_results(c, err);
		if (rc == 0 && leaf && c->place->rank == 0)
			rc = write_leaf(c, "run", c->a.results, err);
		if (leaf)
			rc = cmd_run_agree(c, rc, err);
		c->unwritten = rc < 0;
	}
	return rc;
}

/* A run that never began leaves nothing, so no other run finds its catalogs. */
static void cmd_run_forget(struct cmd_run_state *c)
{
	run_data_forget(&c->data, c->a.results);
	run_folder_close(c->a.results, c->lock);
	c->lock = -1;
	if (c->leaf[0] && c->place->rank == 0)
		(void)!rmdir(c->leaf); /* if it is empty */
	else if (c->place->rank == 0)
		path_remove_empty(c->a.results, c->made);
}

/* Collective: the next of several runs, with the data of the first one. */
static int cmd_run_again(struct cmd_run_state *c, struct shoal_err *err)
{
	int rc;

	run_folder_close(c->a.results, c->lock);
	c->lock = -1;
	run_result_release(&c->result);
	c->result = (struct run_result){ 0 };
	c->began = clock_now();
	rc = begin_leaf(c, err);
	if (rc == 0 && c->place->rank == 0)
		rc = check_folder(c, err);
	return cmd_run_agree(c, rc, err);
}

/* ---- The whole ---- */

static int cmd_run_finish(struct cmd_run_state *c, int rc, int status)
{
	bool partial = c->result.partial, alone = c->place->size == 1;
	bool reading = c->result.reading[0] || c->result.reading[1];

	cli_listen_end(&c->a.listen);
	run_folder_close(c->a.results, c->lock);
	status = cli_part("run", c->comm,
			  cli_stop && (rc == -ECANCELED || partial) ? CLI_INTERRUPTED : status);
	if (rc == -ECANCELED || partial) {
		if (alone)
			cli_die_of_signal();
		cli_exit_now("run", status);
	}
	run_result_release(&c->result);
	if ((rc < 0 && c->loaded) || reading)
		cli_exit_now("run", status);
	run_data_close(&c->data);
	workload_free(c->workload);
	return status;
}

/* One run, or several in succession: runs below the target are counted, a failure ends them. */
static int cmd_run_all(struct cmd_run_state *c)
{
	struct shoal_err err = { "" };
	int rc = cmd_run_prepare(c, &err), status = CLI_OK, one;

	if (c->a.dry_run && rc == 0)
		return cmd_run_finish(c, rc, CLI_OK);
	for (unsigned i = 0; i < c->a.runs && (i == 0 || (rc == 0 && !c->result.partial)); i++) {
		if (i > 0)
			rc = cmd_run_again(c, &err);
		if (c->a.runs > 1 && rc == 0 && c->place->rank == 0 && !cli_talk.quiet)
			cli_note("run", "run %u of %u", i + 1, c->a.runs);
		if (rc == 0)
			rc = cmd_run_run(c, &err);
		if (rc < 0 && !c->result.begun)
			cmd_run_forget(c);
		run_screen_clear(&c->screen);
		one = rc < 0 ? cmd_run_print_failure(c, rc, &err) : cmd_run_report(c);
		one = cli_trace_finish("run", c->trace, rc == 0, c->rank, one);
		c->trace = NULL;
		status = one > status ? one : status;
	}
	cli_print_lost_peer("run", c->comm, rc, &err);
	return cmd_run_finish(c, rc, status);
}

static int cmd_run_start(void *arguments, int nr, char **words)
{
	static struct cmd_run_state c = { .lock = -1 }; /* errors are reported by the threads */
	struct shoal_err err = { "" };
	int status;

	c.began = clock_now();
	status = cmd_run_check(arguments, nr, words);
	if (status == CLI_OK)
		status = cmd_run_check_layout(arguments);
	if (status != CLI_OK)
		return status;
	c.a = *(struct cmd_run_arguments *)arguments;
	if (cli_join(&c.a.where, &c.comm, &err) < 0)
		return cli_fail("run", "%s", cli_words("run", &err));
	c.place = comm_place(c.comm);
	c.rank = c.place->rank;
	run_screen_start(&c.screen, c.rank == 0, &c.a.listen);
	comm_set_stall(c.comm, STALL_SECONDS, cmd_run_show_warning, &c);
	c.tree = cli_layout_of(&c.a.layout, c.a.results);
	return cmd_run_all(&c);
}

static void cmd_run_defaults(void *arguments)
{
	struct cmd_run_arguments *a = arguments;

	a->accelerators = 1;
	a->runs = 1;
}

#define AT(field) offsetof(struct cmd_run_arguments, field)

static const struct cli_option options[] = {
	CLI_TEXT(
		0, "catalog", "CATALOG", AT(data),
		"the catalog of the data (default: catalog.shoal in --data, or --data is listed). --data "
		"itself may be a catalog, too"),
	CLI_TEXT(0, "results", "DIR", AT(results),
		 "the directory for the results of this run alone; made if necessary. With "
		 "--results-layout mlpstorage the top of a tree of results"),
	CLI_COUNT("runs", "COUNT", AT(runs), 1, 1000,
		  "runs in succession: MLPerf's rules require 6, a warm-up and five"),
	CLI_NUMBER("accelerators-per-rank", "COUNT", AT(accelerators), 1, ACCELERATORS_MAX,
		   "accelerators that each rank simulates (default 1)"),
	CLI_FLAG(0, "resume", AT(resume), "continue an interrupted run after its last step"),
	CLI_FLAG(0, "force", AT(force),
		 "write even if the directory has the results of another run, which are removed "
		 "first"),
	CLI_FLAG(0, "dry-run", AT(dry_run), "write nothing: print what would be run and written"),
	CLI_FLAG(0, "drop-cache", AT(drop),
		 "before each epoch drop the dataset's files from the page cache"),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_FLAG(0, "json", AT(json), "print summary.json instead of a table"),
	CLI_PEER_TIMEOUT(AT(where.peer_timeout), AT(where.peer_timeout_given)),
	CLI_END,
};

const struct cli_command cmd_run = {
	.name = "run",
	.summary = "benchmark storage with a training workload",
	.usage = "WORKLOAD|FILE.yaml --data PLACE --results DIR [KEY=VALUE]... [OPTION]...",
	.about =
		"Run a training workload against storage: each simulated accelerator loads batches "
		"and sleeps for its compute time, and all wait for each other after every step. "
		"Prints how busy they were (AU), and writes summary.json and the files of each rank "
		"to the results folder. Under mpirun a rank is one or several accelerators.\n"
		"KEY=VALUE sets a value of the workload: dataset.num_files_train=5000. Exits with 1 "
		"if the utilisation is below the workload's target (metric.au). Results of Shoal are not "
		"MLPerf results: those come from MLPerf's own code, and are verified by MLCommons.",
	.sections = { { .options = options },
		      CLI_LAYOUT_SECTION(AT(layout)),
		      CLI_LOAD_SECTION(AT(load)),
		      CLI_TRACE_SECTION(AT(traces)),
		      CLI_LISTEN_SECTION(AT(listen)),
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.give = "give a workload: its name, or a file",
	.shares_work = true,
	.size = sizeof(struct cmd_run_arguments),
	.set_defaults = cmd_run_defaults,
	.run = cmd_run_start,
};
