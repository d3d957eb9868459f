/* run_screen.h - the progress of a run. */
#ifndef SHOAL_CLI_RUN_SCREEN_H
#define SHOAL_CLI_RUN_SCREEN_H

#include "cli/progress.h"
#include "run/run.h"

struct run_screen {
	struct cli_progress line;
	uint64_t epoch; /* of the line shown last, and its kind */
	bool eval;
	bool quiet;
	char last[256];          /* the figures of that epoch */
	struct run_progress end; /* of a phase whose figures are still to come */
	uint64_t before;         /* samples of the phases before */
	struct live_now now;     /* what was shown last, and when */
	double now_at;
	char wait[32];
};

void run_screen_start(struct run_screen *s, bool speaks, struct cli_listen *listen);
void run_screen_show(struct run_screen *s, const struct run_progress *p);

/* A phase ended: a tool gets its figures, which are those of the results. */
void run_screen_end(struct run_screen *s, const struct run_result_phase *p);

/* While nothing happens: a view says for how long. */
void run_screen_wait(struct run_screen *s);

/* Remove the line from the terminal, to print something else. */
void run_screen_clear(struct run_screen *s);

/* A line of its own: "run: words". */
void run_screen_say(struct run_screen *s, const char *words);

#endif
