/* shoal sweep: measure at every combination of parameters, and find the knee. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/path.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/sweep_command.h"
#include "cli/sweep_print.h"
#include "report/page.h"
#include "run/folder.h"
#include "sweep/folder.h"

struct cmd_sweep_arguments {
	const char *vary[SWEEP_PARAMETERS];
	size_t nr_vary;
	unsigned repeats;
	uint64_t seed;
	const char *results, *launcher;
	unsigned within, slower; /* per cent, times */
	bool no_ceiling, resume, force, dry_run, json;
};

struct cmd_sweep_state {
	const struct cmd_sweep_arguments *a;
	struct sweep_plan plan;
	struct sweep_command command;
	struct sweep_job *jobs;
	struct sweep_record *records;
	size_t nr_jobs;
	size_t nr_good; /* jobs of this process that have figures */
	int lock;
	bool replaces; /* another sweep, which is still there */
};

/* ---- One measurement ---- */

static void show_job(const struct cmd_sweep_state *s, size_t at)
{
	const struct sweep_record *r = &s->records[at];
	char values[300], figures[128];

	if (cli_talk.quiet)
		return;
	sweep_values_words(&s->plan, s->jobs[at].point, values, sizeof(values));
	snprintf(figures, sizeof(figures), "%s samples/s, latency p50 %s, %.2f cores",
		 rate_in_words(r->figure[SWEEP_SAMPLES]).text,
		 time_in_words(r->figure[SWEEP_P50] * 1e-3).text, r->figure[SWEEP_CPU]);
	cli_say("sweep", "%zu of %zu: %s%s: %s", at + 1, s->nr_jobs, values,
		s->jobs[at].ceiling ? ", without storage" : "", r->error[0] ? r->error : figures);
}

/* The output of a command that failed is none; run fails if its AU is missed, and has figures. */
static void judge_child(const struct child_result *c, double ranks, struct sweep_record *r)
{
	sweep_take_output(c->out, c->len, ranks, r);
	if (c->status == CLI_OK || !r->error[0])
		return;
	if (c->last_words[0])
		snprintf(r->error, sizeof(r->error), "%s", c->last_words);
	else
		snprintf(r->error, sizeof(r->error), "the command ended with status %d", c->status);
}

/* After the first measurement: only a command that works costs the results of another sweep. */
static int replace_other(struct cmd_sweep_state *s, const struct sweep_record *r,
			 struct shoal_err *err)
{
	int rc;

	if (r->error[0])
		return err_set(err, -EIO, "the first measurement failed: %s", r->error);
	rc = sweep_folder_replace(s->a->results, &s->plan, s->command.words, s->command.nr,
				  s->a->launcher, err);
	s->replaces = rc < 0;
	return rc;
}

static int do_job(struct cmd_sweep_state *s, size_t at, struct shoal_err *err)
{
	char **words = sweep_command_of(&s->command, &s->plan, &s->jobs[at]);
	struct sweep_record *r = &s->records[at];
	struct child_result c = { 0 };
	int rc = words ? child_run(words, s->a->results, &c, err)
		       : err_set(err, -ENOMEM, "out of memory");

	free(words);
	if (rc == 0) {
		judge_child(&c, sweep_ranks(&s->plan, s->jobs[at].point), r);
		s->nr_good += !r->error[0];
		/* What is wrong with the command line is wrong for all points. */
		if (c.status == CLI_USAGE && s->nr_good == 0)
			rc = err_set(err, -EINVAL, "%s", r->error);
	}
	free(c.out);
	if (rc == 0 && s->replaces)
		rc = replace_other(s, r, err);
	if (rc == 0)
		rc = sweep_record_write(s->a->results, &s->plan, &s->jobs[at], r, err);
	if (rc == 0)
		show_job(s, at);
	return rc;
}

/* ---- All ---- */

static int do_jobs(struct cmd_sweep_state *s, struct shoal_err *err)
{
	size_t nr_known = 0;
	int rc = 0;

	for (size_t i = 0; i < s->nr_jobs && !s->replaces; i++) {
		sweep_record_read(s->a->results, &s->jobs[i], &s->records[i]);
		if (s->records[i].error[0]) /* it is tried again */
			s->records[i].there = false;
		nr_known += s->records[i].there;
	}
	if (nr_known > 0 && !cli_talk.quiet)
		cli_say("sweep", "%zu of %zu measurements are there already", nr_known, s->nr_jobs);
	for (size_t i = 0; rc == 0 && i < s->nr_jobs; i++)
		if (!s->records[i].there)
			rc = cli_stop ? err_set(err, -ECANCELED, "interrupted") : do_job(s, i, err);
	return rc;
}

/* sweep.json, the page and what is printed, also of a sweep that was interrupted. */
static int cmd_sweep_write_report(struct cmd_sweep_state *s, struct sweep_result *r,
				  struct shoal_err *err)
{
	struct knee_rules rules = { s->a->within * 0.01, s->a->slower };
	uint64_t now = clock_wall();
	char path[4096];
	int rc = sweep_sum_up(&s->plan, s->jobs, s->records, rules, r, err);

	if (rc == 0)
		rc = sweep_folder_write(s->a->results, s->command.words, s->command.nr,
					s->a->launcher, r, err);
	if (rc == 0)
		rc = path_join(s->a->results, run_file_name(RUN_FILE_PAGE), path, sizeof(path),
			       err);
	if (rc == 0)
		rc = report_page_write(&s->a->results, 1, path, now, err);
	return rc;
}

static bool any_failed(const struct cmd_sweep_state *s)
{
	for (size_t i = 0; i < s->nr_jobs; i++)
		if (s->records[i].error[0])
			return true;
	return false;
}

static int cmd_sweep_report(struct cmd_sweep_state *s, int rc, struct shoal_err *why)
{
	struct sweep_result r = { 0 };
	struct shoal_err err = { "" };
	int status = CLI_FAILED, wrc;

	if (rc == -EINVAL && s->nr_good == 0) {
		if (!s->replaces) /* a typing error must not use it up */
			sweep_folder_forget(s->a->results);
		return cli_usage("sweep", "the command is refused: %s", cli_words("sweep", why));
	}
	if (s->replaces)
		return cli_fail("sweep", "%s; the sweep in '%s' stays as it was",
				rc == -ECANCELED ? "interrupted" : cli_words("sweep", why),
				s->a->results);
	wrc = cmd_sweep_write_report(s, &r, &err);
	if (rc == 0 && wrc == 0)
		status = any_failed(s) ? CLI_FAILED : CLI_OK;
	if (wrc == 0 && s->a->json)
		sweep_print_json(&r);
	else if (wrc == 0)
		sweep_print_text(&r, s->a->results);
	sweep_result_release(&r);
	if (rc == -ECANCELED)
		cli_fail("sweep", "interrupted; go on with --resume");
	else if (rc < 0)
		cli_fail("sweep", "%s; go on with --resume", cli_words("sweep", why));
	if (wrc < 0)
		cli_fail("sweep", "%s", cli_words("sweep", &err));
	if (status == CLI_FAILED && rc == 0 && wrc == 0)
		cli_fail("sweep", "some measurements failed; --resume tries these again");
	return status;
}

/* ---- Starting ---- */

static int cmd_sweep_plan(struct cmd_sweep_state *s)
{
	struct shoal_err err = { "" };

	s->plan.nr_parameters = s->a->nr_vary;
	s->plan.repeats = s->a->repeats;
	s->plan.ceilings = !s->a->no_ceiling;
	s->plan.seed = s->a->seed;
	for (size_t i = 0; i < s->a->nr_vary; i++)
		if (sweep_parse_parameter(s->a->vary[i], &s->plan.parameter[i], &err) < 0)
			return cli_usage("sweep", "--vary: %s", cli_words("sweep", &err));
	return sweep_command_check(&s->command, &s->plan);
}

static void print_dry(const struct cmd_sweep_state *s)
{
	for (size_t i = 0; i < s->nr_jobs; i++) {
		char **words = sweep_command_of(&s->command, &s->plan, &s->jobs[i]);

		for (char **w = words; w && *w; w++)
			printf("%s%s", w == words ? "" : " ", *w);
		putchar('\n');
		free(words);
	}
	cli_say("sweep", "%zu measurements would be made and written to '%s'", s->nr_jobs,
		s->a->results);
}

static int cmd_sweep_do(struct cmd_sweep_state *s)
{
	struct shoal_err err = { "" };
	int rc, status;

	if (s->a->dry_run) {
		print_dry(s);
		return CLI_OK;
	}
	rc = sweep_folder_open(s->a->results, &s->plan, s->command.words, s->command.nr,
			       s->a->launcher, s->a->resume, s->a->force, &s->lock, &err);
	if (rc < 0)
		return cli_fail("sweep", "%s", cli_words("sweep", &err));
	s->replaces = rc == 1;
	cli_catch_signals();
	rc = do_jobs(s, &err);
	status = cmd_sweep_report(s, rc, &err);
	sweep_folder_close(s->a->results, s->lock);
	if (rc == -ECANCELED) {
		cli_flush_output();
		cli_die_of_signal();
	}
	return status;
}

static int cmd_sweep_run(void *arguments, int nr, char **words)
{
	const struct cmd_sweep_arguments *a = arguments;
	struct cmd_sweep_state *s;
	int status;

	if (a->nr_vary == 0)
		return cli_usage("sweep", "say what to vary: --vary in-flight=1..64");
	if (!a->results || !*a->results)
		return cli_usage("sweep", "say where the results go: --results DIR");
	if (a->resume && a->force)
		return cli_usage("sweep", "--resume and --force exclude each other");
	s = calloc(1, sizeof(*s)); /* the values are large */
	if (!s)
		return cli_fail("sweep", "out of memory");
	s->a = a;
	s->lock = -1;
	s->command = (struct sweep_command){
		.words = words, .nr = (size_t)nr, .launcher = a->launcher, .results = a->results
	};
	status = cmd_sweep_plan(s);
	s->nr_jobs = status == CLI_OK ? sweep_nr_jobs(&s->plan) : 0;
	s->jobs = calloc(s->nr_jobs + 1, sizeof(*s->jobs));
	s->records = calloc(s->nr_jobs + 1, sizeof(*s->records)); /* per measurement */
	if (!s->jobs || !s->records) {
		status = cli_fail("sweep", "out of memory");
	} else if (status == CLI_OK) {
		sweep_jobs(&s->plan, s->jobs);
		status = cmd_sweep_do(s);
	}
	free(s->jobs);
	free(s->records);
	free(s);
	return status;
}

/* ---- The table ---- */

static void cmd_sweep_defaults(void *arguments)
{
	struct cmd_sweep_arguments *a = arguments;

	a->repeats = 3;
	a->seed = 1;
	a->within = 5;
	a->slower = 4;
}

#define AT(field) offsetof(struct cmd_sweep_arguments, field)

static const struct cli_option options[] = {
	CLI_LIST("vary", "NAME=VALUES", AT(vary), AT(nr_vary), SWEEP_PARAMETERS,
		 "an option of the command, a key of the workload, or 'ranks', and its values: "
		 "1,2,4 or 1..64, which doubles, or 4..20+4; once or twice"),
	CLI_TEXT(0, "results", "DIR", AT(results),
		 "write everything here: a record per measurement, sweep.json, report.html"),
	CLI_COUNT("repeat", "TIMES", AT(repeats), 1, SWEEP_REPEATS_MAX,
		  "measure each point so many times (default 3)"),
	CLI_NUMBER("seed", "SEED", AT(seed), 0, 0,
		   "of the random order of the measurements (default 1)"),
	CLI_FLAG(0, "no-ceiling", AT(no_ceiling),
		 "do not measure what the client itself can do at each point"),
	CLI_COUNT("within", "PERCENT", AT(within), 1, 50,
		  "the knee is the smallest value whose throughput is within so many per cent of "
		  "the best (default 5)"),
	CLI_COUNT("slower", "TIMES", AT(slower), 1, 1000,
		  "and whose latency p50 is at most so many times the lowest (default 4)"),
	CLI_TEXT(0, "launcher", "COMMAND", AT(launcher),
		 "start each measurement with this, divided at spaces; {} is the number of ranks "
		 "(default with --vary ranks: 'mpirun -n {}')"),
	CLI_FLAG(0, "resume", AT(resume), "go on with the sweep in the folder"),
	CLI_FLAG(0, "force", AT(force), "replace another sweep in the folder"),
	CLI_FLAG(0, "dry-run", AT(dry_run), "measure nothing: print the command lines"),
	CLI_JSON(AT(json)),
	CLI_END,
};

static const char *const commands[] = { "read", "run", NULL };

const struct cli_command cmd_sweep = {
	.name = "sweep",
	.summary = "measure over a grid of parameters, and find the knee",
	.usage = "--vary NAME=VALUES... --results DIR [OPTION]... -- read CATALOG [OPTION]...\n"
		 "--vary NAME=VALUES... --results DIR [OPTION]... -- run WORKLOAD [OPTION]...",
	.about =
		"Run 'shoal read' or 'shoal run' with every combination of the values of one or two "
		"parameters, several times each, in a random order, each in a process of its own. "
		"Print throughput and latency of each point, the knee, and the points where the "
		"client was the limit and not the storage.\n"
		"The knee is the smallest value of the first parameter whose throughput is close "
		"to the best, and whose latency has not grown too much. The client is the limit "
		"if its processors are busy, or if the same client does not do much more with "
		"bytes that it generates itself.",
	.sections = { { .options = options } },
	.notes = "A sweep that was interrupted or killed goes on with --resume. The exit status is "
		 "1 if a measurement failed.",
	.first_word = commands,
	.min = 1,
	.give = "give the command after --: read CATALOG or run WORKLOAD, and its options",
	.size = sizeof(struct cmd_sweep_arguments),
	.set_defaults = cmd_sweep_defaults,
	.run = cmd_sweep_run,
};
