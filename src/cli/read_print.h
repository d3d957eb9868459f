/* read_print.h - what shoal read prints of its measurements. */
#ifndef SHOAL_CLI_READ_PRINT_H
#define SHOAL_CLI_READ_PRINT_H

#include "base/json.h"
#include "cli/read_measure.h"

/* The members of an object. */
void read_put_json(struct json *j, const struct read_plan *plan, const struct read_outcome *o,
		   int nr_ranks);
/* How it was read, so that two results can be compared: @lines of cmd_read's "key: value". */
void read_put_settings(struct json *j, const char *lines);
void read_print_json(const struct read_plan *plan, const struct read_outcome *o, int nr_ranks);
void read_print_text(const struct read_plan *plan, const struct read_outcome *o, int nr_ranks);

#endif
