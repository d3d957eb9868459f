/*
 * progress.h - the progress of a command, on standard error: a line that is overwritten on a
 * terminal, a line every few seconds in a log, or a JSON document per second for tools
 * (--progress). Only rank 0 prints.
 */
#ifndef SHOAL_CLI_PROGRESS_H
#define SHOAL_CLI_PROGRESS_H

#include "cli/options.h"
#include "shoal.h"

enum cli_style { CLI_AUTO, CLI_PLAIN, CLI_AS_JSON, CLI_SILENT };

/* What the command prints beside its result: options that every command has. */
struct cli_talk {
	bool quiet, verbose;
	enum cli_style style;
	double began; /* when the command began, by clock_seconds() */
};

extern struct cli_talk cli_talk;
extern const struct cli_option cli_talk_options[];

struct cli_progress {
	const char *command;
	bool silent, terminal, json, dirty;
	double start, shown;            /* seconds */
	uint64_t nr_shown, bytes_shown; /* when it was last shown */
	bool begun;
	double first; /* when the first figures came, and how much was done then */
	uint64_t nr_first;
};

/* The progress. */
struct cli_step {
	const char *what;     /* "names" */
	uint64_t done, total; /* total 0: unknown */
	uint64_t bytes;       /* bytes done; 0: bytes are not counted */
	/*
	 * If the command ends after a time: the fraction of that time that has passed, and how many
	 * seconds are left.
	 */
	double share, left;
	const char *more; /* further text for a line, or NULL */
};

/* @speaks: this is rank 0. */
void cli_progress_start(struct cli_progress *p, const char *command, bool speaks);

/*
 * As cli_progress_start(), for a command that prints its result meanwhile: no progress on a
 * terminal that shows the result.
 */
void cli_progress_start_beside(struct cli_progress *p, const char *command);

/* Print it, unless something was printed a moment ago. */
void cli_progress_show(struct cli_progress *p, const struct cli_step *now);

/*
 * As cli_progress_show(), for a listing; @total is known if it is compared with a catalog,
 * otherwise 0.
 */
void cli_progress_show_index(struct cli_progress *p, const struct shoal_index_progress *now,
			     uint64_t total);

/* Whether it is time to print again: for a command that formats its own line. */
bool cli_progress_is_due(const struct cli_progress *p);

/* Print a line, truncated to the terminal's width. */
void cli_progress_put(struct cli_progress *p, const char *line);

/* Remove the line from the terminal, to print something else. */
void cli_progress_clear(struct cli_progress *p);

#endif
