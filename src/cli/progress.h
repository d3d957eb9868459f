/*
 * progress.h - how far a command is, on standard error: a view (cli/view.h) or a line that is
 * overwritten on a terminal, a line every few seconds in a log, or a JSON document per second for
 * tools (--progress). Only rank 0 prints.
 */
#ifndef SHOAL_CLI_PROGRESS_H
#define SHOAL_CLI_PROGRESS_H

#include "cli/listen.h"
#include "cli/options.h"
#include "cli/view.h"
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
	bool silent, terminal, json;
	double start, shown;            /* seconds */
	uint64_t nr_shown, bytes_shown; /* when it was last shown */
	const char *what;               /* that is counted; NULL: nothing has been shown */
	double first; /* when the first figures came, and how much was done then */
	uint64_t nr_first;
	bool viewed; /* on a terminal as a view */
	struct cli_view view;
	struct cli_listen *listen; /* who is told too; NULL: nobody */
	double told;               /* when; in seconds */
	uint64_t nr_told;          /* how much was done then, and since when it is that much */
	double same;
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

/* The same for a command that has a view, and may serve its figures; @listen may be NULL. */
void cli_progress_start_view(struct cli_progress *p, const char *command, bool speaks,
			     struct cli_listen *listen);

/* The same for a command that prints its result meanwhile: not on the terminal that shows it. */
void cli_progress_start_beside(struct cli_progress *p, const char *command);

/* Print it, unless something was printed a moment ago. */
void cli_progress_show(struct cli_progress *p, const struct cli_step *now);

/* As cli_progress_show(), for a listing; @total is a guess, or 0. */
void cli_progress_show_index(struct cli_progress *p, const struct shoal_index_progress *now,
			     uint64_t total);

/* Whether it is time to print again: for a command that formats its own line. */
bool cli_progress_is_due(const struct cli_progress *p);

/* For a command that has a view: tell who listens, and draw it if it is time and this is a
 * terminal. Returns whether there is nothing more to print. */
bool cli_progress_live(struct cli_progress *p, const struct live_now *now, const char *more);

/* Print a line, as much of it as fits the terminal. */
void cli_progress_put(struct cli_progress *p, const char *line);

/* Remove the line from the terminal, to print something else. */
void cli_progress_clear(const struct cli_progress *p);

#endif
