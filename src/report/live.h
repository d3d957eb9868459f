/*
 * live.h - what rank 0 knows of a command that is at work: the report page, its data, and metrics
 * for Prometheus (OpenMetrics 1.0).
 *
 * The command's threads hand in records and facts, which takes a copy under a lock. Everything that
 * takes time is done by the thread that reads: see live_tick().
 */
#ifndef SHOAL_REPORT_LIVE_H
#define SHOAL_REPORT_LIVE_H

#include "base/buf.h"
#include "base/err.h"
#include "run/series.h"

struct live_head {
	const char *command; /* "run" */
	const char *name;    /* of what it works on; copied */
	unsigned nr_ranks;   /* whose records are handed in */
	unsigned nr_here;    /* accelerators per rank; 0: it simulates none */
	double au_bar;       /* in percent; NAN: none */
	uint64_t total;      /* ranks of the command */
	uint64_t started;    /* ns since 1970: times of records count from here; 0: from now */
	/* What it is about to do: begin.json and, of a workload, effective.yaml. Copied; may be
	 * NULL. */
	const char *begin, *config;
};

/* How far it is. What is not known is 0, and NAN if it is no number of things. */
struct live_now {
	const char *what; /* that are done: "samples"; static */
	uint64_t done, total;
	uint64_t epoch, nr_epochs, step, nr_steps;
	bool eval;
	double share; /* of all that is to be done, from 0 to 1 */
	double seconds_left;
	double au, samples_per_second, bytes_per_second;
	uint64_t slowest_rank; /* in the last step, and how long it waited */
	double slowest_seconds;
	double idle; /* seconds since the last step ended, or since anything was done */
};

struct live;

int live_new(const struct live_head *head, struct live **ret_l, struct shoal_err *err) MUST_USE;
struct live *live_free(struct live *l);

/* ---- By any thread ---- */

/* A record of seconds or of a listing. If too many have come since the last tick, it is dropped and
 * counted. */
void live_add(struct live *l, unsigned rank, const struct series_record *r);
void live_show(struct live *l, const struct live_now *now);

/* An epoch has ended: @phase is a JSON object with its results, as in summary.json. */
void live_add_phase(struct live *l, const char *phase);

/* ---- By the thread that reads ---- */

/* Take in what was handed in. Call it a few times per second. */
void live_tick(struct live *l);

/* Each appends to @to, whose error sticks: the page, its data as JSON, the metrics. */
void live_put_page(struct live *l, struct buf *to);
void live_put_data(struct live *l, struct buf *to);
void live_put_metrics(struct live *l, struct buf *to);

#endif
