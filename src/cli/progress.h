/* progress.h - the progress of an index: a line that is overwritten on a terminal, otherwise one
 * from time to time. */
#ifndef SHOAL_CLI_PROGRESS_H
#define SHOAL_CLI_PROGRESS_H

#include "base/base.h"
#include "shoal.h"

struct cli_progress {
	double start, shown; /* seconds */
	uint64_t nr_shown;   /* names, when it was shown last */
	bool terminal, dirty;
};

void cli_progress_start(struct cli_progress *p);
void cli_progress_show(struct cli_progress *p, const struct shoal_index_progress *now);

/* Take the line off the terminal, to print something else. */
void cli_progress_clear(struct cli_progress *p);

#endif
