/*
 * outputs.h - read RANK_output.json of a results folder, reduced to what fits a page.
 *
 * A run may have millions of steps on a thousand ranks. Each epoch is reduced to a bounded number
 * of intervals with equally many steps, and ranks to a bounded number of groups of neighbours, so
 * memory and page depend on neither.
 */
#ifndef SHOAL_REPORT_OUTPUTS_H
#define SHOAL_REPORT_OUTPUTS_H

#include "base/err.h"
#include "base/json.h"

struct outputs;

/*
 * Read all ranks of @folder. A truncated or damaged file is read up to the damage, and counted: see
 * outputs_damaged(). Without files there are no epochs, which is not an error.
 */
int outputs_read(const char *folder, struct outputs **ret_o, struct shoal_err *err) MUST_USE;
struct outputs *outputs_free(struct outputs *o);

/* Whether no rank has a file. */
bool outputs_none(const struct outputs *o);

/* Without any steps, for outputs_add(). NULL without memory. */
struct outputs *outputs_new(void);

/* Add steps from elsewhere: so many from @first on. Seconds per step: @wait on average and at most.
 * -ENOMEM. */
struct outputs_step {
	unsigned rank, nr_ranks;
	uint64_t first, nr;
	double wait, wait_max, seconds;
};
int outputs_add(struct outputs *o, uint64_t epoch, const struct outputs_step *steps) MUST_USE;

/* The number of ranks whose file could not be read completely, and the first of them. */
unsigned outputs_damaged(const struct outputs *o, unsigned *ret_first);

/* Into an open array: a note, if epochs were left out. */
void outputs_put_notes(const struct outputs *o, struct json *j);

/* Write them as the member @key: epochs with their intervals, and one row per group of ranks. */
void outputs_put(const struct outputs *o, struct json *j, const char *key);

#endif
