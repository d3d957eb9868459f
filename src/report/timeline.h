/*
 * timeline.h - read the time series of all ranks of a results folder, reduced to what fits a page:
 * a bounded number of intervals of equal length, and ranks as a bounded number of groups of
 * neighbours.
 */
#ifndef SHOAL_REPORT_TIMELINE_H
#define SHOAL_REPORT_TIMELINE_H

#include "base/err.h"
#include "base/json.h"
#include "report/outputs.h"
#include "run/series.h"

struct timeline;

/*
 * If there are no series, *@ret_t has no intervals; that is not an error. Files that end early are
 * read up to there, and files that are not series are left out; timeline_put_notes() reports both.
 */
int timeline_read(const char *folder, struct timeline **ret_t, struct shoal_err *err) MUST_USE;
struct timeline *timeline_free(struct timeline *t);

/*
 * A timeline of a command that is at work, into which records of all ranks are added as they come.
 * Its intervals double with the time. @started: ns since 1970.
 */
int timeline_live(unsigned nr_ranks, unsigned nr_accelerators, uint64_t started,
		  struct timeline **ret_t, struct shoal_err *err) MUST_USE;
void timeline_add(struct timeline *t, unsigned rank, const struct series_record *r);

/* Add the steps of a record to @o; those of evaluations are none. -ENOMEM. */
int timeline_add_step(struct outputs *o, unsigned rank, unsigned nr_ranks, unsigned nr_accelerators,
		      const struct series_record *r) MUST_USE;

/* Whether there is anything in it. */
bool timeline_any(const struct timeline *t);

/* Write the notes as strings of an open array. */
void timeline_put_notes(const struct timeline *t, struct json *j);

/* Write it as the member @key: null if it has no intervals. */
void timeline_put(const struct timeline *t, struct json *j, const char *key);

/* Add the steps of all ranks to @o, for a run that ended before it wrote RANK_output.json. */
int timeline_add_steps(const char *folder, struct outputs *o, struct shoal_err *err) MUST_USE;

#endif
