/* select_options.h - which files of a list, and how to print them: shared by the commands that have
 * lists. */
#ifndef SHOAL_CLI_SELECT_OPTIONS_H
#define SHOAL_CLI_SELECT_OPTIONS_H

#include "cli/cli.h"
#include "cli/progress.h"
#include "shoal.h"

#define SELECT_PATTERNS 64

/* Patterns point into it: do not move it after cli_select_finish(). */
struct cli_select {
	struct shoal_select select;
	const char *include[SELECT_PATTERNS], *exclude[SELECT_PATTERNS];
	const char *given; /* the last option given */
};

extern const struct cli_option cli_select_options[];

/* False after printing which pattern or expression is malformed. */
bool cli_select_check(const char *command, void *select) MUST_USE;

/* Whether of all these options only --limit was given. */
bool cli_select_only_limits(const struct cli_select *s);

/* The section for a command whose arguments have a struct cli_select at @base_. */
#define CLI_SELECT_SECTION(base_)                                                                \
	{                                                                                        \
		.title = "which files", .options = cli_select_options, .base = (base_),          \
		.given = (base_) + offsetof(struct cli_select, given), .check = cli_select_check \
	}

/* Call it before the arguments are used. */
const struct shoal_select *cli_select_finish(struct cli_select *s);

/* ---- Printing ---- */

struct cli_format {
	bool sizes, etags, ids; /* columns of lines */
	bool null, json, csv;
};

extern const struct cli_option cli_format_options[];

#define CLI_FORMAT_SECTION(base_)                                                            \
	{                                                                                    \
		.title = "how to print them", .options = cli_format_options, .base = (base_) \
	}

/* CLI_OK, or CLI_USAGE for formats that exclude each other. */
int cli_format_check(const char *command, const struct cli_format *f) MUST_USE;

/*
 * Whether names are for people, on a terminal: then bytes that a terminal would interpret are
 * escaped. Programs get names as they are.
 */
bool cli_names_for_people(void);

/* Print what comes before the first entry. */
void cli_put_header(const struct cli_format *f);

/* Print an entry to standard output: CLI_OK, or CLI_FAILED for a name that breaks its line. */
int cli_put_entry(const char *command, const struct cli_format *f, const struct shoal_entry *e,
		  bool with_id) MUST_USE;

/* Print a whole list, until standard output fails. */
int cli_put_list(const char *command, const char *what, struct shoal_list *list,
		 const struct cli_format *f, bool with_ids) MUST_USE;

/* ---- Catalogs that are made ---- */

struct cli_output {
	const char *path;
	bool force, dry_run, json;
};

#define CLI_OUTPUT_OPTIONS(base)                                                    \
	CLI_TEXT('o', "output", "FILE", (base) + offsetof(struct cli_output, path), \
		 "write the catalog here"),                                         \
		CLI_OUTPUT_COMMON(base)
#define CLI_OUTPUT_COMMON(base)                                                                \
	CLI_FLAG(0, "force", (base) + offsetof(struct cli_output, force),                      \
		 "write a catalog without files, or one that replaces a catalog of more than " \
		 "twice as many; and replace a file that is not a catalog"),                   \
		CLI_FLAG(0, "dry-run", (base) + offsetof(struct cli_output, dry_run),          \
			 "write nothing: print what would be written"),                        \
		CLI_JSON((base) + offsetof(struct cli_output, json))

/* Whether a catalog can be written to @path: CLI_OK, or the exit status after a message. */
int cli_output_check(const char *command, const char *path) MUST_USE;

/* Print why a catalog made of @what was not written. Returns CLI_FAILED. */
int cli_output_refused(const char *command, const char *what, int rc, struct shoal_err *err);

/* What all that write catalogs have in common; @o, @where and @progress are lent. An empty catalog
 * is written. */
struct shoal_write_options cli_write_options(const struct cli_output *o,
					     const struct cli_where *where,
					     struct cli_progress *progress);

/* A progress line for shoal_write_options; @progress is a struct cli_progress. */
void cli_output_progress(void *progress, uint64_t nr_done, uint64_t nr_all);

/* Print what was written. */
void cli_output_report(const struct cli_output *o, const char *path,
		       const struct shoal_list_totals *totals);

#endif
