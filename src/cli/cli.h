/* cli.h - what the commands share: exit codes, options, output. */
#ifndef SHOAL_CLI_CLI_H
#define SHOAL_CLI_CLI_H

#include <getopt.h>
#include <stdio.h>

#include "base/err.h"

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

/* "shoal COMMAND: words" on standard error. Returns CLI_FAILED. */
int cli_fail(const char *command, const char *fmt, ...) SHOAL_PRINTF(2, 3);

/* The same, with how to get help. Returns CLI_USAGE. */
int cli_usage(const char *command, const char *fmt, ...) SHOAL_PRINTF(2, 3);

/* Names may hold anything: what a terminal would act on, or would break a line, is spelt out. */
void cli_put_plain(FILE *out, const char *text, size_t len);

/* In the options of every command that opens catalogs with cli_open(), and its line of help. */
enum { CLI_OPT_LOCAL_COPY = 1000 };
#define CLI_LOCAL_COPY                                                    \
	{                                                                 \
		"local-copy", required_argument, NULL, CLI_OPT_LOCAL_COPY \
	}

/* The next option, as getopt_long(); errors are said in our words and give '?'. */
int cli_getopt(int argc, char **argv, const char *shorts, const struct option *longs);

/* The value of the option just read as a number, a size: false with words when it is none. */
bool cli_number(const char *command, const char *option, uint64_t *ret_value) SHOAL_MUST_USE;
bool cli_size(const char *command, const char *option, uint64_t *ret_value) SHOAL_MUST_USE;

/* The value of --threads. */
bool cli_threads(const char *command, uint64_t *ret_nr) SHOAL_MUST_USE;

/* Open a catalog, in a file or a bucket, by way of --local-copy where that was given. */
int cli_open_catalog(const char *path, struct shoal_catalog **ret_cat,
		     struct shoal_err *err) SHOAL_MUST_USE;

/* The same, with words on failure: NULL. */
struct shoal_catalog *cli_open(const char *command, const char *path);

/* Whether a catalog has something to read. -ENODATA with words. */
int cli_check_samples(const struct shoal_catalog *cat, struct shoal_err *err) SHOAL_MUST_USE;

/* Say what went wrong with a lookup in the catalog at @path. Returns CLI_FAILED. */
int cli_lookup_failed(const char *command, const char *path, const struct shoal_catalog *cat,
		      int rc);

/* Flush standard output; a write that failed there turns @status into CLI_FAILED. */
int cli_finish(const char *command, int status);

/*
 * Say goodbye to the other ranks. What was printed is flushed first: as soon as one rank has exited
 * with a failure a launcher may kill those that are still about to.
 */
struct shoal_comm;
void cli_part(struct shoal_comm *comm);

/*
 * End with @status while threads still read, which may never end: exit() would take down below them
 * what they use.
 */
_Noreturn void cli_exit_now(const char *command, int status);

/* Print @text as a JSON string; bytes that are not UTF-8 become U+FFFD. */
void cli_json_string(const char *text);

/* Becomes 1 on a signal that asks for an end, once cli_catch_signals() was called. */
extern int cli_stop;
void cli_catch_signals(void);
void cli_release_signals(void);

/* After cleaning up: end as the signal that was caught would have ended us. Returns if none was. */
void cli_die_of_signal(void);

#endif
