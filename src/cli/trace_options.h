/* trace_options.h - the options of commands that can record their reads. */
#ifndef SHOAL_CLI_TRACE_OPTIONS_H
#define SHOAL_CLI_TRACE_OPTIONS_H

#include "base/err.h"
#include "cli/options.h"

struct cli_trace {
	const char *trace, *log; /* paths, or NULL */
};

extern const struct cli_option cli_trace_options[];

struct comm;
struct trace;

/* Collective: open the trace of reads below @place, a URI or a path. */
int cli_trace_open(const struct cli_trace *t, const char *place, struct comm *comm,
		   struct trace **ret_trace, struct shoal_err *err) MUST_USE;

/* For a dry run: whether the files could be written while data at @place is read. */
int cli_trace_try(const struct cli_trace *t, const char *place, struct shoal_err *err) MUST_USE;

/* Collective, after a measurement whose figures are printed: write what was recorded. Returns
 * @status, or CLI_FAILED after a message. The trace is closed, also without @write. */
int cli_trace_finish(const char *command, struct trace *trace, bool write, int rank, int status);

bool cli_trace_check(const char *command, void *trace) MUST_USE;

#define CLI_TRACE_SECTION(base_)                                                     \
	{                                                                            \
		.title = "recording", .options = cli_trace_options, .base = (base_), \
		.check = cli_trace_check                                             \
	}

#endif
