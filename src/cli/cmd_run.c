/* shoal run: a training workload, with accelerators that sleep. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/datasize.h"
#include "bench/pace.h"
#include "bench/run.h"
#include "cli/load_options.h"
#include "cli/run_screen.h"
#include "cli/s3_options.h"
#include "load/fetch.h"
#include "load/loader.h"
#include "report/report.h"

static const char usage[] =
	"usage: shoal run WORKLOAD|FILE.yaml --data WHERE --results DIR [KEY=VALUE]... [OPTION]...\n"
	"       mpirun -n RANKS shoal run ...\n"
	"\n"
	"Run a training workload against storage: each simulated accelerator loads batches and sleeps for\n"
	"its compute time, and all meet after every step. Prints how busy they were kept (AU), and writes\n"
	"summary.json and the files of each rank to DIR. A rank is an accelerator, or several. KEY=VALUE\n"
	"sets a value of the workload: dataset.num_files_train=5000.\n"
	"\n"
	"      --data WHERE      a directory, a URI or a catalog; with --store null it may be left out\n"
	"      --results DIR     where results go; made if need be, and of this run alone\n"
	"      --accelerators A  accelerators that each rank stands for (default 1)\n"
	"      --resume          go on with a run that was interrupted, behind its last step\n"
	"      --in-flight K     samples being read at once by a rank (default: reader.read_threads for\n"
	"                        each accelerator)\n"
	"      --prefetch P      batches read ahead (default: reader.prefetch_size)\n" LOAD_USAGE
	"      --drop-cache      before each epoch have the page cache forget the dataset's files\n"
	"      --local-copy DIR  read a copy of the catalog in DIR, made if need be\n"
	"      --json            print summary.json instead of a table\n"
	"  -q, --quiet           print no progress\n" CLI_S3_USAGE "\n"
	"Exits 1 when the utilisation misses the workload's bar (metric.au).\n";

enum { OPT_DATA = 400, OPT_RESULTS, OPT_ACCELERATORS, OPT_RESUME, OPT_DROP_CACHE, OPT_JSON };

static const struct option longs[] = {
	{ "data", required_argument, NULL, OPT_DATA },
	{ "results", required_argument, NULL, OPT_RESULTS },
	{ "accelerators", required_argument, NULL, OPT_ACCELERATORS },
	{ "resume", no_argument, NULL, OPT_RESUME },
	LOAD_LONG_OPTIONS,
	{ "drop-cache", no_argument, NULL, OPT_DROP_CACHE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	CLI_LOCAL_COPY,
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

/* More in one process than any test of a machine needs; memory for them is taken at once. */
#define ACCELERATORS_MAX 4096

/* A wait for other ranks that lasts longer is told. */
#define STALL_SECONDS 30.0

struct arguments {
	const char *workload, *data, *results;
	char **overrides;
	size_t nr_overrides;
	uint64_t accelerators;
	struct shoal_load_options load;
	bool resume, drop, json, quiet;
};

struct command {
	struct arguments a;
	struct shoal_comm *comm;
	const struct shoal_comm_place *place;
	int rank; /* for the loader's thread, which may outlive the comm */
	struct bench_workload *workload;
	struct bench_data data;
	struct bench_result result;
	struct run_screen screen;
	uint64_t began;
	bool loaded;    /* a loader may be left that waits for reads: do not clean up */
	int lock;       /* of the results folder, on rank 0; else -1 */
	bool kept;      /* rank 0: a resumed run has its catalogs in the results folder */
	bool unwritten; /* it ran to its end, or was stopped, but results could not be written */
	bool misused;   /* an option does not fit the catalog */
};

/* ---- Options ---- */

static bool take_option(int c, struct arguments *a)
{
	int shared = load_option("run", c, &a->load);

	if (shared)
		return shared > 0;
	switch (c) {
	case OPT_DATA:
		a->data = optarg;
		return true;
	case OPT_RESULTS:
		a->results = optarg;
		return true;
	case OPT_ACCELERATORS:
		return load_number("run", "--accelerators", ACCELERATORS_MAX, &a->accelerators);
	case OPT_RESUME:
		return a->resume = true;
	case OPT_DROP_CACHE:
		return a->drop = true;
	case OPT_JSON:
		return a->json = true;
	case 'q':
		return a->quiet = true;
	default:
		return false;
	}
}

static bool made_up(const struct arguments *a)
{
	return a->load.store && strncmp(a->load.store, "null:", 5) == 0;
}

/* CLI_OK, or what to exit with. */
static int parse(int argc, char **argv, struct arguments *a)
{
	int c;

	while ((c = cli_getopt(argc, argv, ":qh", longs)) != -1)
		if (c == 'h' || !take_option(c, a))
			return c == 'h' ? -1 : CLI_USAGE;
	if (optind == argc)
		return cli_usage("run", "give a workload: its name, or a file");
	a->workload = argv[optind];
	a->overrides = argv + optind + 1;
	a->nr_overrides = (size_t)(argc - optind - 1);
	for (size_t i = 0; i < a->nr_overrides; i++)
		if (!strchr(a->overrides[i], '='))
			return cli_usage("run", "'%s' is not KEY=VALUE", a->overrides[i]);
	if (!a->results)
		return cli_usage("run", "say where the results go: --results DIR");
	if (!*a->results)
		return cli_usage("run", "--results is empty");
	if (!a->data && !made_up(a))
		return cli_usage("run", "say where the data is: --data DIR, URI or CATALOG");
	if (cli_s3_check_uri("run", a->data) != CLI_OK)
		return CLI_USAGE;
	return load_check("run", &a->load);
}

/* ---- What is said on the way; by rank 0, but for stalled reads ---- */

static void show_progress(void *self, const struct bench_progress *p)
{
	run_screen_show(&((struct command *)self)->screen, p);
}

static void show_index(void *self, const struct shoal_index_progress *p)
{
	struct command *c = self;

	if (!c->a.quiet)
		cli_progress_show(&c->screen.index, p);
}

static void show_words(void *self, const char *words)
{
	struct command *c = self;

	if (c->place->rank == 0)
		run_screen_say(&c->screen, words);
}

static void show_warning(void *self, const char *words)
{
	struct command *c = self;

	if (c->place->rank == 0)
		cli_fail("run", "%s", words);
}

/* The loader's thread: only what is written at once. */
static void show_stalled_read(void *self, const char *words)
{
	const struct command *c = self;

	cli_fail("run", "rank %d: %s", c->rank, words);
}

/* While the loader waits, which it may for ever: has another rank failed? */
static int listen_to_others(void *self, struct shoal_err *err)
{
	const struct command *c = self;
	struct shoal_comm_mail mail;
	int rc = shoal_comm_poll(c->comm, 0, &mail, err);

	return rc < 0 ? rc : 0;
}

/* ---- The results folder ---- */

/* With the folders above it. */
static int make_folder(const char *path, struct shoal_err *err)
{
	char part[4096];
	size_t len = strlen(path);

	if (len == 0 || len >= sizeof(part))
		return shoal_fail(err, -ENAMETOOLONG, "the path of the results is too long");
	for (size_t i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0777) < 0 && errno != EEXIST && errno != EISDIR)
			return shoal_fail_errno(err, shoal_errno(), "cannot make the folder '%s'",
						part);
	}
	return 0;
}

/* Rank 0: the folder is there, can be written, and has no other results. */
static int check_folder(struct command *c, struct shoal_err *err)
{
	char path[4096];
	int rc = make_folder(c->a.results, err);

	if (rc < 0)
		return rc;
	if (access(c->a.results, W_OK) < 0)
		return shoal_fail_errno(err, shoal_errno(), "cannot write results to '%s'",
					c->a.results);
	rc = bench_run_lock(c->a.results, &c->lock, err);
	if (rc < 0)
		return rc;
	snprintf(path, sizeof(path), "%s/summary.json", c->a.results);
	if (c->a.resume && !bench_run_can_resume(c->a.results))
		return shoal_fail(err, -ENOENT,
				  access(path, F_OK) == 0
					  ? "'%s' has the results of a finished run: there is "
					    "nothing to resume"
					  : "there is no run to resume in '%s'",
				  c->a.results);
	if (!c->a.resume && (access(path, F_OK) == 0 || bench_run_can_resume(c->a.results)))
		return shoal_fail(
			err, -EEXIST, "'%s' has the results of another run: name another folder%s",
			c->a.results, bench_run_can_resume(c->a.results) ? ", or --resume it" : "");
	return c->a.resume ? bench_run_check_data(c->a.results, c->a.data, &c->kept, err) : 0;
}

/* ---- Running ---- */

static int load_workload(struct command *c, struct shoal_err *err)
{
	int rc = bench_workload_load(c->a.workload, c->a.overrides, c->a.nr_overrides, show_warning,
				     c, &c->workload, err);

	if (rc == 0 && !c->workload->workflow.train)
		rc = shoal_fail(err, -EINVAL,
				"the workload does not train (workflow.train is false): there is "
				"nothing to run");
	return rc;
}

static int open_data(struct command *c, struct shoal_err *err)
{
	struct bench_data_options o = { .data = c->a.data,
					.store = c->a.load.store,
					.made_up = made_up(&c->a),
					.etags = c->a.load.if_match && c->a.data &&
						 load_is_remote(c->a.data),
					.folder = c->a.results,
					.reuse = c->kept,
					.object_size = c->a.load.object_size,
					.stop = &cli_stop,
					.open = cli_open_catalog,
					.progress = show_index,
					.say = show_words,
					.self = c };
	int rc;

	/* Until the first step a signal ends all; from then on the run ends after a step. */
	shoal_comm_set_stop(c->comm, &cli_stop);
	rc = bench_data_open(&c->data, c->comm, c->workload, &o, err);
	shoal_comm_set_stop(c->comm, NULL);
	run_screen_clear(&c->screen);
	return rc;
}

/* Before anything of the run is there. All ranks see the same catalogs. */
static int check_use(struct command *c, struct shoal_err *err)
{
	const char *store = c->a.load.store ? c->a.load.store : c->data.store;
	const struct shoal_catalog *const cats[] = { c->data.cat, c->data.cat_eval };
	int rc = load_check_place(store ? store : c->data.root, &c->a.load, c->a.drop, err);

	for (size_t i = 0; i < SHOAL_ARRAY_LEN(cats); i++)
		if (rc == 0 && c->a.load.if_match && cats[i])
			rc = load_check_etags(cats[i], store, err);
	c->misused = rc < 0;
	if (rc < 0)
		shoal_comm_fail(c->comm, err->msg);
	else if (c->workload->reader.odirect && load_is_remote(store ? store : c->data.root))
		show_words(c, "reader.odirect is ignored: objects in a bucket are not in the page "
			      "cache");
	return rc;
}

/* Collective: rank 0 says when the data is less than MLPerf's rule asks for. */
static int note_size(struct command *c, struct shoal_err *err)
{
	struct bench_cluster cluster;
	char words[300];
	int rc;

	if (made_up(&c->a))
		return 0;
	rc = bench_measure(c->comm, &cluster, err);
	cluster.nr_accelerators = (uint64_t)c->place->size * c->a.accelerators;
	if (rc == 0 && bench_too_small(c->workload, &cluster, words, sizeof(words)))
		show_words(c, words);
	return rc;
}

static int run_steps(struct command *c, struct shoal_err *err)
{
	struct bench_run_options o = { .workload = c->workload,
				       .data = &c->data,
				       .data_name = c->a.data,
				       .comm = c->comm,
				       .nr_accelerators = (uint32_t)c->a.accelerators,
				       .load = c->a.load,
				       .drop_cache = c->a.drop,
				       .resume = c->a.resume,
				       .results = c->a.results,
				       .stop = &cli_stop,
				       .began = c->began,
				       .progress = show_progress,
				       .self = c };

	if (!o.load.store)
		o.load.store = c->data.store;
	if (c->place->size > 1)
		o.load.waiting = listen_to_others;
	o.load.stalled = show_stalled_read;
	o.load.self = c;
	c->loaded = true;
	return bench_run(&o, &c->result, err);
}

/* Every rank its own files, from its record of steps; then rank 0 the summary. */
static int write_results(struct command *c, struct shoal_err *err)
{
	struct bench_log log = BENCH_LOG_CLOSED;
	uint32_t nr = (uint32_t)c->a.accelerators;
	char path[4096];
	int rc = bench_run_log_path(c->a.results, c->place->rank, path, sizeof(path));

	if (rc == 0)
		rc = bench_log_open(path, c->result.run, nr, &log, err);
	if (rc == 0)
		rc = report_ranks_write(&c->result, &log, (uint64_t)c->place->rank * nr,
					(uint64_t)c->place->nr_nodes, c->a.results, err);
	bench_log_close(&log);
	if (rc == 0 && c->place->rank == 0)
		rc = report_config_write(&c->result, c->a.results, err);
	if (rc < 0)
		shoal_comm_fail(c->comm, err->msg);
	else
		rc = shoal_comm_barrier(c->comm, err); /* all files are there */
	if (rc == 0 && c->place->rank == 0) {
		rc = report_summary_write(&c->result, c->a.results, err);
		if (rc < 0)
			shoal_comm_fail(c->comm, err->msg);
		else if (!c->result.partial)
			bench_run_forget(c->a.results, c->place->size);
	}
	return rc;
}

/* Collective: rank 0's @rc for all. */
static int agree(struct command *c, int rc, struct shoal_err *err)
{
	if (rc < 0) {
		shoal_comm_fail(c->comm, err->msg);
		return rc;
	}
	return shoal_comm_barrier(c->comm, err);
}

static int run(struct command *c, struct shoal_err *err)
{
	int rc = load_workload(c, err);

	if (rc == 0 && c->place->rank == 0)
		rc = check_folder(c, err);
	rc = agree(c, rc, err);
	if (rc == 0)
		rc = open_data(c, err);
	if (rc == 0)
		rc = check_use(c, err);
	if (rc == 0)
		rc = note_size(c, err);
	if (rc == 0)
		rc = run_steps(c, err);
	if (rc == 0) {
		rc = write_results(c, err);
		c->unwritten = rc < 0;
	}
	/* Nothing is left of a run that never began; above all no catalog for another to find. */
	if (rc < 0 && !c->result.begun)
		bench_data_forget(&c->data, c->a.results);
	return rc;
}

/* ---- Telling ---- */

/* Rank 0: the table, or the JSON. */
static int print(const struct command *c)
{
	/* mpirun gives rank 0 a terminal of its own, whatever its output is. */
	bool colour = c->place->size == 1 && isatty(STDOUT_FILENO) && !getenv("NO_COLOR");
	struct shoal_err err = { "" };
	char *words = NULL;
	int rc = c->a.json ? report_summary_text(&c->result, &words, &err)
			   : report_table_text(&c->result, colour, &words, &err);

	if (rc < 0)
		return cli_fail("run", "%s", err.msg);
	printf("%s%s", words, c->a.json ? "\n" : "");
	free(words);
	return CLI_OK;
}

/* Rank 0, after a failure: what was finished before is kept and shown, marked as partial. */
static void keep_what_is_there(struct command *c, const struct shoal_err *why)
{
	size_t nr = c->result.nr_phases;
	struct shoal_err err = { "" };

	if (nr == 0)
		return;
	c->result.partial = true;
	snprintf(c->result.why_partial, sizeof(c->result.why_partial), "%s", why->msg);
	print(c);
	if (report_summary_write(&c->result, c->a.results, &err) == 0)
		cli_fail("run", "%zu finished epoch%s in '%s/summary.json', marked as partial", nr,
			 nr == 1 ? " is" : "s are", c->a.results);
}

static int say_failure(struct command *c, int rc, const struct shoal_err *err)
{
	char rank[32] = "";

	if (c->place->rank > 0)
		return c->misused ? CLI_USAGE : CLI_FAILED;
	if (c->place->size > 1 && rc != -EREMOTEIO)
		snprintf(rank, sizeof(rank), "rank %d: ", c->place->rank);
	if (c->unwritten) {
		print(c);
		return cli_fail("run",
				"%s, but the results are not written: %s%s; make room, and %s",
				c->result.partial ? "interrupted" : "all was run", rank, err->msg,
				c->result.partial ? "--resume goes on" : "--resume writes them");
	}
	if (rc == -ECANCELED)
		cli_fail("run", "interrupted before the first step: nothing was measured");
	else
		cli_fail("run", "%s%s", rank, err->msg);
	keep_what_is_there(c, err);
	return c->misused ? CLI_USAGE : CLI_FAILED;
}

static bool audit_holds(const struct bench_result *r)
{
	for (size_t i = 0; i < r->nr_phases; i++)
		if (r->phases[i].proof == BENCH_WRONG)
			return false;
	return true;
}

/* What was left out is named here, too: the table may have gone to a file. */
static void say_not_once(const struct bench_result *r)
{
	uint64_t nr = bench_result_errors(r);

	for (size_t i = 0; i < r->nr_errors; i++)
		cli_fail("run", "%s", r->errors[i]);
	if (nr > 0)
		cli_fail("run",
			 "not every sample was read exactly once: %" PRIu64 " could not be read",
			 nr);
	else
		cli_fail("run", "not every sample was read exactly once");
}

static int tell(struct command *c)
{
	const struct bench_result *r = &c->result;
	int status = c->place->rank == 0 ? print(c) : CLI_OK;

	if (r->partial) {
		if (c->place->rank == 0)
			cli_fail("run",
				 "interrupted: '%s/summary.json' is partial; --resume goes on",
				 c->a.results);
		return CLI_FAILED;
	}
	if (!audit_holds(r)) {
		if (c->place->rank == 0)
			say_not_once(r);
		return CLI_FAILED;
	}
	if (r->train.meets)
		return status;
	if (c->place->rank == 0 && !bench_result_measured(r))
		cli_fail("run", "AU is not known: all steps of an epoch are excluded "
				"(output.metric.exclude_start_steps, exclude_end_steps)");
	else if (c->place->rank == 0)
		cli_fail("run", "AU is %.2f %%, and the workload's bar is %.0f %%", r->train.au,
			 r->workload->au * 100.0);
	return CLI_FAILED;
}

static int finish(struct command *c, int rc, int status)
{
	bool partial = c->result.partial, alone = c->place->size == 1;
	bool reading = c->result.reading[0] || c->result.reading[1];

	bench_run_unlock(c->a.results, c->lock);
	cli_part(c->comm);
	if (rc == -ECANCELED || partial) {
		if (alone)
			cli_die_of_signal();
		cli_exit_now("run", cli_stop ? CLI_INTERRUPTED : status);
	}
	bench_result_release(&c->result);
	if ((rc < 0 && c->loaded) || reading)
		cli_exit_now("run", status);
	bench_data_close(&c->data);
	bench_workload_free(c->workload);
	return status;
}

int cmd_run(int argc, char **argv)
{
	static struct command c = { .a.accelerators = 1,
				    .lock = -1 }; /* errors leave it to the threads */
	struct shoal_err err = { "" };
	int rc, status;

	c.began = bench_now();
	status = parse(argc, argv, &c.a);
	if (status == -1)
		return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
	if (status != CLI_OK)
		return status;
	cli_catch_signals();
	if (shoal_comm_open(&c.comm, &err) < 0)
		return cli_fail("run", "%s", err.msg);
	c.place = shoal_comm_place(c.comm);
	c.rank = c.place->rank;
	run_screen_start(&c.screen, c.a.quiet);
	shoal_comm_set_stall(c.comm, STALL_SECONDS, show_warning, &c);
	rc = run(&c, &err);
	run_screen_clear(&c.screen);
	status = rc < 0 ? say_failure(&c, rc, &err) : tell(&c);
	return finish(&c, rc, status);
}
