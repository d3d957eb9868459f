/* cli.h - shared by the commands: exit codes, options, output. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H

#include <getopt.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* Each parses its own arguments; argv[0] is the command's name. */
int cmd_column(int argc, char **argv);
int cmd_datasize(int argc, char **argv);
int cmd_datagen(int argc, char **argv);
int cmd_find(int argc, char **argv);
int cmd_index(int argc, char **argv);
int cmd_info(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_manifest(int argc, char **argv);
int cmd_order(int argc, char **argv);
int cmd_read(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_workloads(int argc, char **argv);

/* Print "shoal COMMAND: words" on standard error. Returns CLI_FAILED. */
int cli_fail(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The same, with how to get help. Returns CLI_USAGE. */
int cli_usage(const char *command, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Names may contain any bytes: those that a terminal would interpret, or that break a line, are
 * escaped. */
void cli_put_plain(FILE *out, const char *text, size_t len);

/* In the options of every command that opens catalogs with cli_open(), and its line of help. */
enum { CLI_OPT_LOCAL_COPY = 1000, CLI_OPT_PEER_TIMEOUT };
#define CLI_LOCAL_COPY                                                    \
	{                                                                 \
		"local-copy", required_argument, NULL, CLI_OPT_LOCAL_COPY \
	}

/* In the options of every command that ranks run together, and its line of help. */
#define CLI_PEER_TIMEOUT                                                      \
	{                                                                     \
		"peer-timeout", required_argument, NULL, CLI_OPT_PEER_TIMEOUT \
	}
#define CLI_PEER_TIMEOUT_USAGE                                                              \
	"      --peer-timeout S  end if another rank gives no sign of life for S seconds\n" \
	"                        (default 120; 0: wait for ever)\n"

/* The options that commands share: how to reach stores and to open catalogs. */
struct cli_where {
	struct shoal_store_config config; /* by cli/s3_options.h */
	const char *local_copy;           /* --local-copy, or NULL */
	const char *peer_timeout;         /* --peer-timeout, or NULL */
};

/*
 * The next option, as getopt_long(); an error is printed in our words and gives '?'. Shared options
 * go to @where, which may be NULL if @longs has none of them. "shoal COMMAND --list-options" prints
 * the names of all, with a = where one has a value, and exits.
 */
int cli_getopt(int argc, char **argv, const char *shorts, const struct option *longs,
	       struct cli_where *where);

/* The value of the option just read as a number or a size: false with a message if malformed. */
bool cli_number(const char *command, const char *option, uint64_t *ret_value) MUST_USE;
bool cli_size(const char *command, const char *option, uint64_t *ret_value) MUST_USE;

/* The value of --threads. */
bool cli_threads(const char *command, uint64_t *ret_nr) MUST_USE;

/* For shoal_catalog_open_with(), ended by signals; lends @where. */
struct shoal_catalog_options cli_catalog_options(const struct cli_where *where);

/* Open a catalog, in a file or a bucket. */
int cli_open_catalog(const char *path, const struct cli_where *where,
		     struct shoal_catalog **ret_cat, struct shoal_err *err) MUST_USE;

/* The same, with words on failure: NULL. */
struct shoal_catalog *cli_open(const char *command, const char *path,
			       const struct cli_where *where);

/* Whether a catalog has something to read. -ENODATA with a message. */
int cli_check_samples(const struct shoal_catalog *cat, struct shoal_err *err) MUST_USE;

/* Print the error of a lookup in the catalog at @path. Returns CLI_FAILED. */
int cli_lookup_failed(const char *command, const char *path, const struct shoal_catalog *cat,
		      int rc);

/* Flush standard output; a write that failed there turns @status into CLI_FAILED. */
int cli_finish(const char *command, int status);

struct comm;

/* Open the comm of all ranks, and catch signals from then on. */
int cli_join(const struct cli_where *where, struct comm **ret_comm, struct shoal_err *err) MUST_USE;

/*
 * Close the comm. Output is flushed first: as soon as one rank has exited with a failure, a
 * launcher may kill the others. From here on a signal ends the process at once; and if MPI does not
 * come to its end, the process exits without it, with @status. Returns @status, or CLI_FAILED if
 * the other ranks did not come to their end.
 */
int cli_part(const char *command, struct comm *comm, int status) MUST_USE;

/* Print the error of a rank that misses another one: rank 0 may be the one that is missing. */
void cli_print_lost_peer(const char *command, const struct comm *comm, int rc,
			 struct shoal_err *err);

/* Exit with @status while threads are still reading, which may never end: exit() would destroy
 * what they use. */
_Noreturn void cli_exit_now(const char *command, int status);

/* The writer of every --json: to standard output, a document per line. */
struct json cli_json(void);

/* Becomes 1 on a terminating signal, once cli_catch_signals() was called. A second one ends the
 * process at once. */
extern int cli_stop;
void cli_catch_signals(void);
void cli_release_signals(void);

/* After cleaning up: end as the caught signal would have ended the process. Returns if there was
 * none. */
void cli_die_of_signal(void);

#endif
