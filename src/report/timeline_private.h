/* timeline_private.h - shared by timeline.c, which fills a timeline, and timeline_put.c. */
#ifndef SHOAL_REPORT_TIMELINE_PRIVATE_H
#define SHOAL_REPORT_TIMELINE_PRIVATE_H

#include "report/timeline.h"
#include "run/series.h"

enum {
	TIMELINE_INTERVALS = 600, /* at most */
	TIMELINE_GROUPS = 64,     /* of ranks */
	TIMELINE_STALLS = 10,
};

/* A minute of a run on one rank has as many records as a month on a thousand: 4,800 bytes each. */
struct bin {
	double covered; /* rank-seconds that records cover; with this the sums begin */
	double span;    /* the same with the time between records, when epochs begin and end */
	double samples, bytes, steps, load, compute, errors, latency, cpu, memory;
	double requests, retries, throttled, names, listed;
	double count[SERIES_PLACES];
	double low, high;           /* samples/s of the slowest and the fastest rank */
	unsigned slowest, nr_ranks; /* those that were there long enough to be compared */
	unsigned nr_few;            /* if there are none: those that were there at all */
	/* Of the rank that was busy longest, as shares of the interval: see struct own_time. */
	double last_busy, last_wait;
	unsigned last;
};

/*
 * What a rank did in an interval, in seconds. The ranks of a run meet after every step, so all have
 * the same rate; the one that the others wait for is the one that is busy longest itself, with data
 * and compute.
 */
struct own_time {
	double samples, covered, busy, wait; /* of each of its accelerators; wait: for data */
};

/*
 * Slow samples at the same time, of one rank or of many: the slowest of them, and how long its rank
 * waited for a batch around then. What the ranks that were not part of it did meanwhile.
 */
struct stall {
	uint64_t ns, start, sample, wait;
	unsigned rank, epoch;
	uint64_t *ranks; /* that were part of it: a bit each, a row of timeline.ranks */
	double others, others_seconds, others_load; /* samples; rank-seconds of them, and waiting */
	char name[SERIES_NAME_MAX + 1];
};

struct timeline {
	unsigned nr_ranks, nr, groups; /* files; intervals in use */
	unsigned nr_damaged, first_damaged, nr_refused, first_refused, nr_accelerators;
	struct shoal_err why; /* of the first that was refused */
	uint64_t started, end, width;
	struct bin *bins;
	struct own_time *rank; /* the rank that is being read, by interval */
	uint64_t *ended;       /* where the last record of each rank ended: 8 bytes per rank */
	/* Samples, and the rank-seconds that records cover and that ranks were busy, by group and
	 * interval. */
	float *rows, *rows_covered, *rows_busy;
	struct stall stalls[TIMELINE_STALLS];
	unsigned nr_stalls, at_rank;
	uint64_t *ranks; /* of the stalls, and of one that is looked at: 11 bits per rank */
	double usual;    /* samples/s of a rank: the median of the intervals */
	bool live;       /* records of all ranks come mixed */
};

/* In the rows of timeline.ranks. */
static inline size_t timeline_rank_words(const struct timeline *t)
{
	return ((size_t)t->nr_ranks + 63) / 64;
}

/* Of each rank. */
static inline double timeline_accelerators(const struct timeline *t)
{
	double ranks = (double)t->nr_ranks - t->nr_refused;

	return ranks > 0 && t->nr_accelerators > 0 ? t->nr_accelerators / ranks : 1;
}

#endif
