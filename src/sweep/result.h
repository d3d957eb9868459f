/*
 * result.h - the results of a sweep: the spread over the repeats of each point, the knee of each
 * curve, and where the client was the limit.
 *
 * A curve is the points that differ in the first parameter only. A point is limited by the client
 * if its processors are busy (CPU_BUSY of those there are, or of those that its ranks can use), or
 * if it reaches OWN_LIMIT of what the same client does at that point with data that needs no
 * storage.
 */
#ifndef SHOAL_SWEEP_RESULT_H
#define SHOAL_SWEEP_RESULT_H

#include "base/json.h"
#include "base/stats.h"
#include "sweep/knee.h"
#include "sweep/record.h"

#define SWEEP_CPU_BUSY  0.9
#define SWEEP_OWN_LIMIT 0.8
#define SWEEP_MEMORY    50.0 /* per cent from the page cache, from which on it is no storage */

struct sweep_point {
	size_t nr; /* repeats that were measured */
	struct stats_spread figure[SWEEP_NR_FIGURES];
	double *all[SWEEP_NR_FIGURES];   /* of each repeat */
	double ceilings[SWEEP_CEILINGS]; /* samples/s of the client alone, each time, and */
	size_t nr_ceilings;
	double ceiling; /* their median; NAN: not measured */
	bool knee;
	const char *client; /* why the client is the limit: "CPU", "CPU per rank", "own limit" */
	char error[256];    /* of a repeat that failed, or "" */
};

struct sweep_result {
	const struct sweep_plan *plan; /* lent */
	struct sweep_point *points;
	struct knee *knees; /* one per curve, of which there are as many as second values */
	size_t nr_curves;
	size_t nr_done, nr_jobs;
	struct knee_rules rules;
};

/*
 * From one record per job, in the order of sweep_jobs(). -ENOMEM. Release it in any case.
 */
int sweep_sum_up(const struct sweep_plan *plan, const struct sweep_job *jobs,
		 const struct sweep_record *records, struct knee_rules rules,
		 struct sweep_result *ret, struct shoal_err *err) MUST_USE;
void sweep_result_release(struct sweep_result *r);

/* Whether more than SWEEP_MEMORY of a point's bytes came from the page cache. */
bool sweep_from_memory(const struct sweep_point *p);

/* A sentence about the knee of a curve. */
void sweep_knee_words(const struct sweep_result *r, size_t curve, char *buf, size_t cap);

/* The members of the open object @j. */
void sweep_put_result(const struct sweep_result *r, struct json *j);

#endif
