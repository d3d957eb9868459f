/* live_private.h - shared by live.c and metrics.c. */
#ifndef SHOAL_REPORT_LIVE_PRIVATE_H
#define SHOAL_REPORT_LIVE_PRIVATE_H

#include <pthread.h>

#include "report/live.h"
#include "report/timeline.h"

/* Sums since the command began. */
struct live_sums {
	uint64_t samples, bytes, steps, errors, requests, retries, throttled, names;
	uint64_t load, compute, latency, cpu; /* ns */
	uint64_t count[SERIES_PLACES];        /* of latencies */
};

struct live_rank {
	uint64_t samples, load, memory;
};

struct live_record {
	unsigned rank;
	struct series_record record;
};

struct live_inbox {
	struct live_record *record;
	size_t nr;
};

struct live {
	struct live_head head; /* its texts are copies */
	uint64_t started;      /* ns since 1970 */

	pthread_mutex_t lock; /* guards these; held for a copy */
	struct live_inbox inbox;
	struct live_now shown;
	uint64_t shown_at; /* by clock_now() */
	uint64_t nr_dropped;
	struct buf ended; /* phases that ended since the last tick, with commas between */

	/* Of the thread that reads: */
	struct live_inbox taken;
	size_t cap; /* of either */
	struct live_now now;
	struct buf phases; /* all of them */
	struct outputs *steps;
	uint64_t nr_lost;
	struct live_sums sum;
	struct live_rank *rank;
	struct timeline *timeline;
};

#endif
