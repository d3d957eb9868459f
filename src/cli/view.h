/*
 * view.h - what a terminal shows of a command at work: a few lines that are drawn again in place.
 *
 * First the time left and a bar, then rates and what else is known, as much as fits the window, and
 * at the end the rate of the last minute as a sparkline. Nothing is coloured. The size of the
 * window is looked up each time, so a resized one is right after a moment.
 */
#ifndef SHOAL_CLI_VIEW_H
#define SHOAL_CLI_VIEW_H

#include "report/live.h"

enum {
	VIEW_LINES = 4,
	VIEW_TEXT = 4096,  /* bytes of all lines */
	VIEW_HISTORY = 60, /* seconds */
};

struct cli_view {
	/* Rates of the last seconds, the newest last. */
	double history[VIEW_HISTORY];
	unsigned nr_history;
	double sampled; /* when; in seconds */
	uint64_t done;  /* what was done then */
};

/* Note how far it is; each second, or so, becomes a part of the sparkline. */
void cli_view_note(struct cli_view *v, double seconds, uint64_t done);

/* Draw it again, by cli/screen.h. @more is shown last, if there is room; may be NULL. */
void cli_view_draw(const struct cli_view *v, const struct live_now *now, const char *more);

/* The text alone: lines of at most @columns, ended by '\n', in @rows lines at most. For tests, and
 * for what is drawn. Returns the number of lines. */
unsigned cli_view_text(const struct cli_view *v, const struct live_now *now, const char *more,
		       unsigned columns, unsigned rows, bool utf8, char *to, size_t cap);

#endif
