/* shoal run: what it prints at its end. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cmd_run.h"
#include "cli/hints.h"
#include "report/report.h"

int cmd_run_print(const struct cmd_run_state *c)
{
	/* mpirun gives rank 0 a terminal of its own, whatever its output is. */
	bool terminal = c->place->size == 1 && isatty(STDOUT_FILENO);
	size_t window = terminal ? cli_columns(STDOUT_FILENO) : 0;
	struct shoal_err err = { "" };
	char *words = NULL;
	int rc = c->a.json ? report_summary_text(&c->result, &words, &err)
			   : report_table_text(&c->result, terminal && cli_wants_colour(), window,
					       &words, &err);

	if (rc < 0)
		return cli_fail("run", "%s", cli_words("run", &err));
	if (terminal && !c->a.json)
		cli_put_lines(stdout, words, CLI_LABEL_COLUMNS);
	else
		fputs(words, stdout);
	free(words);
	return CLI_OK;
}

/* Rank 0, after a failure: completed parts are kept and shown, marked as partial. */
static void keep_what_is_there(struct cmd_run_state *c, struct shoal_err *why)
{
	size_t nr = c->result.nr_phases;
	struct shoal_err err = { "" };

	if (nr == 0)
		return;
	c->result.partial = true;
	snprintf(c->result.why_partial, sizeof(c->result.why_partial), "%s", cli_words("run", why));
	cmd_run_print(c);
	if (report_summary_write(&c->result, c->a.results, &err) == 0)
		cli_fail("run", "%zu finished epoch%s in '%s/summary.json', marked as partial", nr,
			 nr == 1 ? " is" : "s are", c->a.results);
}

int cmd_run_print_failure(struct cmd_run_state *c, int rc, struct shoal_err *err)
{
	char rank[32] = "";

	if (c->place->rank > 0)
		return c->misused ? CLI_USAGE : CLI_FAILED;
	if (c->place->size > 1 && rc != -EREMOTEIO)
		snprintf(rank, sizeof(rank), "rank %d: ", c->place->rank);
	if (c->unwritten) {
		if (!c->result.partial) /* otherwise it was printed first */
			cmd_run_print(c);
		return cli_fail(
			"run",
			"%s, but the results were not written: %s%s; free some space, then %s",
			c->result.partial ? "interrupted" : "the run is complete", rank,
			cli_words("run", err),
			c->leaf[0]          ? "run it again"
			: c->result.partial ? "continue with --resume"
					    : "write them with --resume");
	}
	if (rc == -ECANCELED && c->result.begun)
		cli_fail("run", "interrupted, and not all ranks came to the end of the step; %s",
			 c->leaf[0] ? "run it again" : "continue with --resume");
	else if (rc == -ECANCELED)
		cli_fail("run", "interrupted before the first step: nothing was measured");
	else
		(c->misspelt ? cli_usage : cli_fail)("run", "%s%s", rank, cli_words("run", err));
	keep_what_is_there(c, err);
	return c->misused ? CLI_USAGE : CLI_FAILED;
}

/* Skipped samples are named here, too: the table may have gone to a file. */
static void say_not_once(const struct run_result *r)
{
	uint64_t nr = run_result_errors(r);

	for (size_t i = 0; i < r->nr_errors; i++)
		cli_fail("run", "%s", r->errors[i]);
	if (nr > 0)
		cli_fail("run",
			 "not every sample was read exactly once: %" PRIu64 " could not be read",
			 nr);
	else
		cli_fail("run", "not every sample was read exactly once");
}

/* The other ranks end with 0: launchers report each process that does not. */
int cmd_run_report(struct cmd_run_state *c)
{
	const struct run_result *r = &c->result;
	int status;

	if (c->place->rank > 0)
		return CLI_OK;
	if (r->partial)
		return cli_fail("run", "interrupted: '%s/summary.json' is partial; %s",
				c->a.results,
				c->leaf[0] ? "remove that directory before the tree is checked"
					   : "continue with --resume");
	status = cmd_run_print(c);
	if (!run_result_audited(r)) {
		say_not_once(r);
		return CLI_FAILED;
	}
	if (r->train.meets)
		return status;
	if (!run_result_measured(r))
		return cli_fail("run", "AU is unknown: all steps of an epoch are excluded "
				       "(output.metric.exclude_start_steps, exclude_end_steps)");
	return cli_fail("run", "AU is %.2f %%, below the workload's target of %.0f %%", r->train.au,
			r->workload->au * 100.0);
}
