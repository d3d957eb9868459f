/*
 * outputs.h - read RANK_output.json of a results folder, and keep what fits a page.
 *
 * A run may have millions of steps on a thousand ranks. Each epoch is kept as a bounded number of
 * intervals of equally many steps, and ranks as a bounded number of groups of neighbours, so memory
 * and page depend on neither.
 */
#ifndef SHOAL_REPORT_OUTPUTS_H
#define SHOAL_REPORT_OUTPUTS_H

#include "base/err.h"
#include "base/json.h"

struct outputs;

/*
 * Read all ranks of @folder. A file that is truncated or damaged is read up to there, and its name
 * is kept for outputs_damaged(). No file at all is no error: there are no epochs then.
 */
int outputs_read(const char *folder, struct outputs **ret_o, struct shoal_err *err) MUST_USE;
struct outputs *outputs_free(struct outputs *o);

/* Whether no rank has a file. */
bool outputs_none(const struct outputs *o);

/* Steps from elsewhere, each in seconds: @wait on average and at most. -ENOMEM. */
struct outputs_step {
	unsigned rank, nr_ranks;
	double wait, wait_max, seconds;
};
int outputs_add(struct outputs *o, uint64_t epoch, uint64_t step,
		const struct outputs_step *one) MUST_USE;

/* The number of ranks whose file could not be read whole, and the first of them. */
unsigned outputs_damaged(const struct outputs *o, unsigned *ret_first);

/* As the member @key: epochs with their intervals, and one row per group of ranks. */
void outputs_put(const struct outputs *o, struct json *j, const char *key);

#endif
