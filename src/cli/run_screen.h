/* run_screen.h - how far a run is: a line that is overwritten on a terminal, else one now and then.
 */
#ifndef SHOAL_CLI_RUN_SCREEN_H
#define SHOAL_CLI_RUN_SCREEN_H

#include "bench/run.h"
#include "cli/progress.h"

struct run_screen {
	struct cli_progress index; /* while files are listed */
	double shown;              /* seconds */
	uint64_t epoch;            /* of the line shown last, and its kind */
	bool eval;
	bool terminal, dirty, quiet;
};

void run_screen_start(struct run_screen *s, bool quiet);
void run_screen_show(struct run_screen *s, const struct bench_progress *p);

/* Take the line off the terminal, to print something else. */
void run_screen_clear(struct run_screen *s);

/* A line of its own: "run: words". */
void run_screen_say(struct run_screen *s, const char *words);

#endif
