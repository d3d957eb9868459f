#include "cli/trace_options.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/hints.h"
#include "load/trace.h"
#include "store/uri.h"

#define AT(field) offsetof(struct cli_trace, field)

const struct cli_option cli_trace_options[] = {
	CLI_TEXT(0, "trace", "FILE", AT(trace),
		 "write a sample of the reads, and the longest of them and of the waits for "
		 "batches, in Chrome's trace format: open it in ui.perfetto.dev"),
	CLI_TEXT(0, "op-log", "FILE", AT(log),
		 "write every read into a log, which 'shoal replay' does again"),
	CLI_END,
};

bool cli_trace_check(const char *command, void *into)
{
	const struct cli_trace *t = into;

	if ((t->trace && !*t->trace) || (t->log && !*t->log))
		cli_usage(command, "--trace and --op-log need the name of a file");
	else if (t->trace && t->log && strcmp(t->trace, t->log) == 0)
		cli_usage(command, "--trace and --op-log cannot be the same file");
	else
		return true;
	return false;
}

/* A log is replayed from anywhere: its root is not relative. @full has PATH_MAX bytes. */
static struct trace_options trace_options_of(const struct cli_trace *t, const char *place,
					     char *full)
{
	const char *local = store_local_path(place);

	return (struct trace_options){ .trace = t->trace,
				       .log = t->log,
				       .root = local && realpath(local, full) ? full : place };
}

int cli_trace_open(const struct cli_trace *t, const char *place, struct comm *comm,
		   struct trace **ret_trace, struct shoal_err *err)
{
	char full[PATH_MAX];
	struct trace_options o = trace_options_of(t, place, full);

	o.comm = comm;
	return trace_open(&o, ret_trace, err);
}

int cli_trace_try(const struct cli_trace *t, const char *place, struct shoal_err *err)
{
	char full[PATH_MAX];
	struct trace_options o = trace_options_of(t, place, full);
	int rc = trace_check(&o, err);

	if (rc == 0 && t->trace)
		rc = cli_try_output(t->trace, err);
	return rc == 0 && t->log ? cli_try_output(t->log, err) : rc;
}

int cli_trace_finish(const char *command, struct trace *trace, bool write, int rank, int status)
{
	struct shoal_err err = { "" };
	int rc = write ? trace_finish(trace, &err) : 0;

	trace_close(trace);
	if (rc == 0)
		return status;
	if (rank == 0 || rc != -EREMOTEIO)
		cli_fail(command, "what was recorded is not written: %s", cli_words(command, &err));
	return CLI_FAILED;
}
