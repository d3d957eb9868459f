/* read_print.h - what shoal read prints of its measurements. */
#ifndef SHOAL_CLI_READ_PRINT_H
#define SHOAL_CLI_READ_PRINT_H

#include "cli/read_measure.h"

/* @settings: lines of "key: value". */
void read_print_json(const struct read_plan *plan, const struct read_outcome *o, int nr_ranks,
		     const char *settings);
void read_print_text(const struct read_plan *plan, const struct read_outcome *o, int nr_ranks);

#endif
