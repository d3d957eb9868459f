/* cli.h - shared by the commands: exit codes, opening catalogs, output, signals. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H

#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "cli/options.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* Print "shoal COMMAND: words" on standard error; with --progress json as a document. Returns
 * CLI_FAILED. */
int cli_fail(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* As cli_fail(), and print how to get help. Returns CLI_USAGE. */
int cli_usage(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Print a line on standard error that is not an error; with --progress json as a document. */
void cli_say(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The same, with "COMMAND: " before it. */
void cli_note(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The same for a warning, which --quiet turns off. */
void cli_warn(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/*
 * Names may contain any bytes: those that a terminal would interpret, or that break a line, are
 * escaped.
 */
void cli_put_plain(FILE *out, const char *text, size_t len);

/* A line with a number of bytes, also in a unit if it has five digits or more. */
void cli_put_bytes(FILE *out, const char *label, uint64_t bytes);

/* How to reach stores and to open catalogs. */
struct cli_where {
	struct shoal_store_config config; /* by cli/s3_options.h */
	const char *local_copy;           /* --local-copy, or NULL */
	unsigned peer_timeout;            /* --peer-timeout in seconds, if it was given */
	bool peer_timeout_given;
};

/* Rows of options that many commands have. */
#define CLI_JSON(at) CLI_FLAG(0, "json", at, "print the facts as JSON")
#define CLI_LOCAL_COPY(at)                                                                          \
	CLI_TEXT(                                                                                   \
		0, "local-copy", "DIR", at,                                                         \
		"read a copy of the catalog in DIR, made if necessary by the first process of the " \
		"node; the others map the same copy")
#define CLI_PEER_TIMEOUT(at_, given_)                                                          \
	{                                                                                      \
		.name = "peer-timeout", .value = "SECONDS", .kind = CLI_IS_COUNT, .at = (at_), \
		.max = 604800, .given = (given_),                                              \
		.help = "end if another rank does not answer for this long, or if MPI takes "  \
			"five times as long to start (default 120; 0: wait for ever)"          \
	}
#define CLI_NULL(at, what) CLI_FLAG('0', "null", at, "end " what " with NUL bytes, not line ends")

/* Options for shoal_catalog_open_with(), which signals end; lends @where. */
struct shoal_catalog_options cli_catalog_options(const struct cli_where *where);

/* Open a catalog, in a file or a bucket. */
int cli_open_catalog(const char *path, const struct cli_where *where,
		     struct shoal_catalog **ret_cat, struct shoal_err *err) MUST_USE;

/* As cli_open_catalog(), but prints the error and returns NULL on failure. */
struct shoal_catalog *cli_open(const char *command, const char *path,
			       const struct cli_where *where);

/* Whether a catalog has something to read. -ENODATA with a message. */
int cli_check_samples(const struct shoal_catalog *cat, struct shoal_err *err) MUST_USE;

/* Print the error of a lookup in the catalog at @path. Returns CLI_FAILED. */
int cli_lookup_failed(const char *command, const char *path, const struct shoal_catalog *cat,
		      int rc);

/* Print that the catalog at @path has no file @name; names are often given with the root, or its
 * last folder, in front. Returns CLI_FAILED. */
int cli_no_such_name(const char *command, const char *path, const struct shoal_catalog *cat,
		     const char *name);

/*
 * Whether a file may be written at @path or at a file URI; otherwise an error that says what is
 * wrong with it or with its directory. Buckets are not checked.
 */
int cli_try_output(const char *path, struct shoal_err *err) MUST_USE;

/* The same: CLI_OK, or CLI_FAILED after printing the error. */
int cli_check_directory(const char *command, const char *path) MUST_USE;

/*
 * CLI_OK if the file at @path may be replaced: there is none, it is empty, it contains @mark near
 * its beginning, as all files of its kind do, or @force. Otherwise CLI_FAILED after a message that
 * it is not @what ("a column").
 */
int cli_keep_foreign(const char *command, const char *path, const char *what, const char *mark,
		     bool force) MUST_USE;

/* Open the list of names at @path, a file or - for standard input. -1 after a message. */
int cli_open_list(const char *command, const char *path) MUST_USE;

/* For a file that does not exist: "; did you mean 's3://bucket/x'?" for "s3:/bucket/x", what is
 * wrong with "http://host/x", or "". */
struct cli_guess {
	char text[320];
};
struct cli_guess cli_guess_uri(const char *path);

/* Whether a write to standard output has failed. Loops that print ask it after each line: only then
 * is the reason still known. cli_finish() reports it. */
bool cli_output_failed(void);
void cli_lose_output(int error); /* what was to be written could not be made */
bool cli_flush_output(void);     /* returns whether all that was printed has been written */

/* Flush standard output; a write that failed there turns @status into CLI_FAILED. */
int cli_finish(const char *command, int status);

/* With --verbose: print the time and the memory that the command took. */
void cli_report_costs(const char *command);

struct comm;

/* Open the comm of all ranks, and catch signals from then on. */
int cli_join(const struct cli_where *where, struct comm **ret_comm, struct shoal_err *err) MUST_USE;

/*
 * After a failure of command @command, which was printed: if this process has not joined the other
 * ranks, which wait for it in MPI's start, join them and end the job. Returns @status, or as
 * cli_part().
 */
int cli_desert(const char *command, int status);

/* This process is no part of what other ranks do. */
void cli_stay_alone(void);

/*
 * Close the comm. Output is flushed first: as soon as one rank has exited with a failure, a
 * launcher may kill the others. From here on a signal ends the process at once; and if MPI does not
 * come to its end, the process exits without it, with @status. Returns @status, or CLI_FAILED if
 * the other ranks did not come to their end.
 */
int cli_part(const char *command, struct comm *comm, int status) MUST_USE;

/* Print the error of a rank that waits for another in vain: rank 0 may be the missing one. */
void cli_print_lost_peer(const char *command, const struct comm *comm, int rc,
			 struct shoal_err *err);

/* Exit with @status while threads are still reading, which may never end: exit() would destroy
 * what they use. */
_Noreturn void cli_exit_now(const char *command, int status);

/* The writer of every --json: to standard output, a document per line. */
struct json cli_json(void);

/* A document on standard error, in one line that is written at once. False: out of memory. */
struct cli_json_line {
	struct json json;
	FILE *out;
	char *text;
	size_t len;
};
bool cli_json_line_open(struct cli_json_line *l);
void cli_json_line_close(struct cli_json_line *l);

/* Becomes 1 on a terminating signal, once cli_catch_signals() was called. A second one ends the
 * process at once. */
extern int cli_stop;
void cli_catch_signals(void);
void cli_release_signals(void);

/* After cleaning up: end as the caught signal would have ended the process. Returns if there was
 * none. */
void cli_die_of_signal(void);

/* The end of a command that is no part of a parallel job: a signal that kept it from its end also
 * ends the process. Otherwise returns @status. */
int cli_end(int status);

#endif
