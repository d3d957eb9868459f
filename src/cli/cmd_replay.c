/* shoal replay: do the reads of a log again. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "load/replay.h"

struct cmd_replay_arguments {
	struct cli_where where;
	const char *data;
	unsigned engine, in_flight;
	uint64_t memory;
	bool fast, direct, json;
};

/* ---- Output ---- */

static double replay_us_at(const struct histogram *h, double share)
{
	return (double)histogram_at(h, share) * 1e-3;
}

static void replay_put_side(struct json *j, const char *key, double seconds, uint64_t nr,
			    const struct histogram *h)
{
	json_open_object(j, key);
	json_real(j, "seconds", seconds, 9);
	json_u64(j, "operations", nr);
	json_real(j, "operations_per_second", seconds > 0 ? (double)nr / seconds : 0, 9);
	if (nr == 0) {
		json_null(j, "latency_us");
		json_close_object(j);
		return;
	}
	json_open_object(j, "latency_us");
	json_real(j, "p50", replay_us_at(h, 0.5), 6);
	json_real(j, "p90", replay_us_at(h, 0.9), 6);
	json_real(j, "p99", replay_us_at(h, 0.99), 6);
	json_real(j, "max", replay_us_at(h, 1), 6);
	json_close_object(j);
	json_close_object(j);
}

static void replay_print_json(const struct replay_result *r, bool fast)
{
	uint64_t recorded = r->log.nr - r->nr_recorded_errors;
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_bool(&j, "fast", fast);
	json_bool(&j, "interrupted", r->interrupted);
	json_string(&j, "root", r->log.root);
	json_string(&j, "engine", r->engine);
	json_u64(&j, "in_flight", r->in_flight);
	json_u64(&j, "bytes", r->bytes);
	replay_put_side(&j, "recorded", r->recorded_seconds, recorded, &r->recorded_latency);
	replay_put_side(&j, "replayed", r->seconds, r->nr, &r->latency);
	json_real(&j, "late_p99_us", replay_us_at(&r->late, 0.99), 6);
	json_u64(&j, "not_in_the_log", r->log.nr_left_out);
	json_u64(&j, "failed_when_recorded", r->nr_recorded_errors);
	json_u64(&j, "failed", r->nr_errors);
	json_u64(&j, "other_length", r->nr_differ);
	json_close_object(&j);
}

/* Of what was recorded and of what was done, a row each. */
static const struct replay_row {
	const char *name;
	double share; /* of the latencies; 0: another figure */
} replay_rows[] = { { "time", 0 },  { "per second", 0 }, { "p50", 0.5 },
		    { "p90", 0.9 }, { "p99", 0.99 },     { "max", 1 } };

static const struct text_column replay_columns[] = {
	{ "", -10, 0 }, { "recorded", 13, 0 }, { "replayed", 13, 0 }, { "change", 9, 0 }
};

static double replay_figure(const struct replay_result *r, size_t row, bool recorded)
{
	double seconds = recorded ? r->recorded_seconds : r->seconds;
	uint64_t nr = recorded ? r->log.nr - r->nr_recorded_errors : r->nr;

	if (replay_rows[row].share > 0 && nr == 0)
		return (double)NAN; /* all failed */
	if (replay_rows[row].share > 0)
		return replay_us_at(recorded ? &r->recorded_latency : &r->latency,
				    replay_rows[row].share) *
		       1e-6;
	return row == 0 ? seconds : seconds > 0 ? (double)nr / seconds : 0;
}

static void replay_put_figure(char *cell, size_t row, double v)
{
	snprintf(cell, TEXT_TABLE_CELL, "%s",
		 isnan(v)   ? "-"
		 : row == 1 ? rate_in_words(v).text
			    : time_in_words(v).text);
}

static void replay_fill_row(const void *self, size_t row, char (*cell)[TEXT_TABLE_CELL])
{
	double was = replay_figure(self, row, true), is = replay_figure(self, row, false);

	snprintf(cell[0], TEXT_TABLE_CELL, "%s", replay_rows[row].name);
	replay_put_figure(cell[1], row, was);
	replay_put_figure(cell[2], row, is);
	if (was > 0 && !isnan(is))
		snprintf(cell[3], TEXT_TABLE_CELL, "%+.1f%%", 100 * (is - was) / was);
	else
		cell[3][0] = '\0';
}

static void replay_print_notes(FILE *out, const struct replay_result *r, bool fast)
{
	if (!fast)
		fprintf(out, "late      %s at p99: operations began so long after their time\n",
			time_in_words(replay_us_at(&r->late, 0.99) * 1e-6).text);
	if (r->log.nr_left_out > 0)
		fprintf(out, "part      %s operations were not recorded: the log was full\n",
			count_in_words(r->log.nr_left_out).text);
	if (r->nr_recorded_errors > 0)
		fprintf(out, "left out  %s that failed when they were recorded\n",
			count_in_words(r->nr_recorded_errors).text);
	if (r->nr_differ > 0)
		fprintf(out, "differ    %s delivered another number of bytes than recorded\n",
			count_in_words(r->nr_differ).text);
}

static void replay_print_text(const struct replay_result *r, bool fast)
{
	struct cli_text head, notes;
	FILE *out = cli_text_open(&head);

	if (!out)
		return;
	fprintf(out, "%s operation%s, %s in %s, %s, by %s with %" PRIu64 " in flight per rank\n",
		count_in_words(r->nr).text, plural(r->nr), size_in_words(r->bytes).text,
		time_in_words(r->seconds).text,
		fast ? "as fast as possible" : "at the recorded times", r->engine, r->in_flight);
	cli_text_print(&head, out, true, 0);
	cli_put_table(&(struct text_table){ .columns = replay_columns,
					    .nr_columns = ARRAY_LEN(replay_columns),
					    .nr_rows = ARRAY_LEN(replay_rows),
					    .fill = replay_fill_row,
					    .self = r });
	out = cli_text_open(&notes);
	if (!out)
		return;
	replay_print_notes(out, r, fast);
	cli_text_print(&notes, out, true, CLI_LABEL_COLUMNS);
}

/* ---- The command ---- */

static int cmd_replay_report(const struct cmd_replay_arguments *a, const char *path,
			     const struct comm_place *place, const struct replay_result *r, int rc,
			     struct shoal_err *err)
{
	if (r->first_error[0])
		cli_fail("replay", "rank %d: %s", place->rank, r->first_error);
	if (place->rank > 0)
		return rc < 0 || r->nr_errors > 0 ? CLI_FAILED : CLI_OK;
	if (rc == -ECANCELED)
		return cli_fail("replay", "interrupted");
	if (rc < 0)
		return cli_fail("replay", "'%s': %s", path, cli_words("replay", err));
	if (a->json)
		replay_print_json(r, a->fast);
	else
		replay_print_text(r, a->fast);
	if (r->nr_errors > 0)
		cli_fail("replay", "%" PRIu64 " operation%s failed", r->nr_errors,
			 plural(r->nr_errors));
	if (r->interrupted)
		cli_fail("replay", "interrupted: these figures are of the part that was done");
	return r->nr_errors > 0 || r->interrupted ? CLI_FAILED : CLI_OK;
}

static void cmd_replay_show(void *progress, uint64_t nr_done, uint64_t nr_all, uint64_t bytes)
{
	cli_progress_show(progress, &(struct cli_step){ .what = "operations",
							.done = nr_done,
							.total = nr_all,
							.bytes = bytes });
}

/* @interrupted: by a signal to this rank or another. */
static int cmd_replay_finish(struct comm *comm, bool interrupted, int status)
{
	bool alone = comm_place(comm)->size == 1;

	status = cli_part("replay", comm, interrupted && cli_stop ? CLI_INTERRUPTED : status);
	if (interrupted && alone) {
		cli_flush_output();
		cli_die_of_signal();
	}
	return status;
}

static int cmd_replay_run(void *arguments, int nr, char **words)
{
	struct cmd_replay_arguments *a = arguments;
	struct replay_result *r = calloc(1, sizeof(*r)); /* it has histograms */
	struct replay_options o = { .store = a->data,
				    .config = &a->where.config,
				    .engine = (enum load_engine_kind)a->engine,
				    .direct = a->direct,
				    .fast = a->fast,
				    .in_flight = a->in_flight,
				    .memory = a->memory,
				    .stop = &cli_stop,
				    .progress = cmd_replay_show };
	struct cli_progress progress;
	bool interrupted;
	struct shoal_err err = { "" };
	struct comm *comm = NULL;
	int rc, status;

	(void)nr;
	if (!r)
		return cli_fail("replay", "out of memory");
	rc = cli_join(&a->where, &comm, &err);
	if (rc < 0) {
		free(r);
		return cli_fail("replay", "%s", cli_words("replay", &err));
	}
	comm_defer_stop(comm, true); /* a rank that is stopped ends its part, and adds it up */
	o.comm = comm;
	o.self = &progress;
	cli_progress_start(&progress, "replay", comm_place(comm)->rank == 0);
	rc = replay_run(words[0], &o, r, &err);
	cli_progress_clear(&progress);
	status = cmd_replay_report(a, words[0], comm_place(comm), r, rc, &err);
	cli_print_lost_peer("replay", comm, rc, &err);
	interrupted = rc == -ECANCELED || r->interrupted;
	free(r);
	return cmd_replay_finish(comm, interrupted, status);
}

static void cmd_replay_defaults(void *arguments)
{
	((struct cmd_replay_arguments *)arguments)->memory = UINT64_C(1) << 30;
}

#define AT(field) offsetof(struct cmd_replay_arguments, field)

static const char *const engines[] = { "auto", "uring", "threads", NULL };

static const struct cli_option options[] = {
	CLI_FLAG(0, "fast", AT(fast),
		 "as fast as possible, instead of each read at its recorded time"),
	CLI_TEXT(0, "data", "PLACE", AT(data),
		 "read below this directory or URI (default: where the log was recorded)"),
	CLI_COUNT("in-flight", "READS", AT(in_flight), 1, 8192,
		  "reads at once per rank (default: as many as the log had)"),
	CLI_WORD("engine", "ENGINE", AT(engine), engines, "uring, threads or auto (default)"),
	CLI_FLAG(0, "direct", AT(direct), "read files without the page cache (O_DIRECT)"),
	CLI_SIZE("memory", AT(memory), 1, 0,
		 "of buffers per rank (default 1G); fewer reads are in flight then"),
	CLI_JSON(AT(json)),
	CLI_PEER_TIMEOUT(AT(where.peer_timeout), AT(where.peer_timeout_given)),
	CLI_END,
};

const struct cli_command cmd_replay = {
	.name = "replay",
	.summary = "do the reads of a recorded log again",
	.usage = "LOG [OPTION]...",
	.about =
		"Do the reads again that 'shoal read --op-log LOG' or 'shoal run --op-log LOG' has "
		"recorded: the same bytes of the same files, each at its time, or as fast as "
		"possible. Print latency and throughput beside the recorded ones.\n"
		"Under mpirun the operations of the recorded ranks are divided among the ranks.",
	.sections = { { .options = options }, CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one log",
	.shares_work = true,
	.size = sizeof(struct cmd_replay_arguments),
	.set_defaults = cmd_replay_defaults,
	.run = cmd_replay_run,
};
