#include <math.h>

#include "report/timeline_private.h"
#include "run/folder.h"

void timeline_put_notes(const struct timeline *t, struct json *j)
{
	if (t->nr_damaged > 0)
		json_format(j, NULL,
			    RUN_SERIES_PREFIX
			    "%u%s incomplete or damaged at the end: the plots show what "
			    "comes before",
			    t->first_damaged, t->nr_damaged == 1 ? " is" : " and others are");
	if (t->nr_refused > 0)
		json_format(j, NULL, RUN_SERIES_PREFIX "%u%s left out: %.150s", t->first_refused,
			    t->nr_refused == 1 ? " is" : " and others are", t->why.msg);
}

/* The latency that @share of the counts do not exceed, in ms; between the bounds of a place as if
 * its values were spread evenly in the logarithm. */
static double percentile(const struct bin *b, double share)
{
	double all = 0, before = 0, want;

	for (unsigned i = 0; i < SERIES_PLACES; i++)
		all += b->count[i];
	want = share * all;
	for (unsigned i = 0; i < SERIES_PLACES; i++) {
		if (b->count[i] > 0 && before + b->count[i] >= want)
			return 1e-3 * exp2(((double)i - 1 + (want - before) / b->count[i]) / 2);
		before += b->count[i];
	}
	return (double)NAN;
}

typedef double bin_value(const struct timeline *t, const struct bin *b);

static double seconds_of(const struct timeline *t)
{
	return (double)t->width * 1e-9;
}

/* Rates are per second from a rank's first record to its last: the last interval may be shorter. */
static double rate_of(const struct bin *b, double sum)
{
	unsigned nr = b->nr_ranks ? b->nr_ranks : b->nr_few;

	return b->span > 0 && nr ? sum / b->span * nr : (double)NAN;
}

#define RATE(name, field)                                                 \
	static double name(const struct timeline *t, const struct bin *b) \
	{                                                                 \
		(void)t;                                                  \
		return rate_of(b, b->field);                              \
	}

RATE(samples_rate, samples)
RATE(bytes_rate, bytes)
RATE(steps_rate, steps)
RATE(errors_rate, errors)
RATE(queue_depth, latency)
RATE(cpu_cores, cpu)
RATE(requests_rate, requests)
RATE(retries_rate, retries)
RATE(throttled_rate, throttled)

static double memory_bytes(const struct timeline *t, const struct bin *b)
{
	(void)t;
	return b->covered > 0 && b->nr_ranks ? b->memory / b->covered * b->nr_ranks : (double)NAN;
}

static double wait_share(const struct timeline *t, const struct bin *b)
{
	return b->covered > 0 ? b->load / (b->covered * timeline_accelerators(t)) : (double)NAN;
}

static double busy_share(const struct timeline *t, const struct bin *b)
{
	return b->covered > 0 ? b->compute / (b->covered * timeline_accelerators(t)) : (double)NAN;
}

static double names_rate(const struct timeline *t, const struct bin *b)
{
	(void)t;
	return b->listed > 0 ? b->names / b->listed : (double)NAN;
}

static double low_rate(const struct timeline *t, const struct bin *b)
{
	(void)t;
	return b->nr_ranks ? b->low : (double)NAN;
}

static double high_rate(const struct timeline *t, const struct bin *b)
{
	(void)t;
	return b->nr_ranks ? b->high : (double)NAN;
}

static double slowest_rank(const struct timeline *t, const struct bin *b)
{
	(void)t;
	return b->nr_ranks ? (double)b->slowest : (double)NAN;
}

/* Only ranks that compute meet after every step, so that others wait for one. */
static bool any_waits(const struct timeline *t, const struct bin *b)
{
	return t->nr_ranks > 1 && b->compute > 0 && b->last_busy > 0;
}

static double last_rank(const struct timeline *t, const struct bin *b)
{
	return any_waits(t, b) ? (double)b->last : (double)NAN;
}

static double last_busy_share(const struct timeline *t, const struct bin *b)
{
	return any_waits(t, b) ? b->last_busy : (double)NAN;
}

static double last_wait_share(const struct timeline *t, const struct bin *b)
{
	return any_waits(t, b) ? b->last_wait : (double)NAN;
}

#define PERCENTILE(name, share)                                           \
	static double name(const struct timeline *t, const struct bin *b) \
	{                                                                 \
		(void)t;                                                  \
		return percentile(b, share);                              \
	}

PERCENTILE(p50_ms, 0.5)
PERCENTILE(p90_ms, 0.9)
PERCENTILE(p99_ms, 0.99)
PERCENTILE(p999_ms, 0.999)

static const struct {
	const char *name;
	bin_value *value;
	bool is_rank; /* so 0 is a value */
} columns[] = {
	{ "samples_per_second", samples_rate },
	{ "bytes_per_second", bytes_rate },
	{ "rank_low", low_rate },
	{ "rank_high", high_rate },
	{ "slowest_rank", slowest_rank, true },
	{ "steps_per_second", steps_rate },
	{ "wait_share", wait_share },
	{ "busy_share", busy_share },
	{ "last_rank", last_rank, true },
	{ "last_busy_share", last_busy_share },
	{ "last_wait_share", last_wait_share },
	{ "queue_depth", queue_depth },
	{ "cpu_cores", cpu_cores },
	{ "memory_bytes", memory_bytes },
	{ "errors_per_second", errors_rate },
	{ "requests_per_second", requests_rate },
	{ "retries_per_second", retries_rate },
	{ "throttled_per_second", throttled_rate },
	{ "names_per_second", names_rate },
	{ "p50_ms", p50_ms },
	{ "p90_ms", p90_ms },
	{ "p99_ms", p99_ms },
	{ "p99.9_ms", p999_ms },
};

/* A column without any value but 0 says nothing, and takes no room. */
static bool timeline_is_empty(const struct timeline *t, bin_value *value, bool is_rank)
{
	for (unsigned i = 0; i < t->nr; i++) {
		double v = value(t, &t->bins[i]);

		if (!isnan(v) && (v != 0 || is_rank))
			return false;
	}
	return true;
}

static void put_columns(const struct timeline *t, struct json *j)
{
	json_open_object(j, "columns");
	for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
		if (timeline_is_empty(t, columns[c].value, columns[c].is_rank))
			continue;
		json_open_array(j, columns[c].name);
		for (unsigned i = 0; i < t->nr; i++)
			json_real(j, NULL, columns[c].value(t, &t->bins[i]), 4);
		json_close_array(j);
	}
	json_close_object(j);
}

/* Counts by place and interval, from the first place that has any to the last. */
static void put_heat(const struct timeline *t, struct json *j)
{
	unsigned first = SERIES_PLACES, last = 0;

	for (unsigned i = 0; i < t->nr; i++)
		for (unsigned p = 0; p < SERIES_PLACES; p++)
			if (t->bins[i].count[p] > 0) {
				first = p < first ? p : first;
				last = p > last ? p : last;
			}
	json_u64(j, "latency_first_place", first < SERIES_PLACES ? first : 0);
	json_open_array(j, "latency_counts");
	for (unsigned p = first; p <= last && first < SERIES_PLACES; p++) {
		json_open_array(j, NULL);
		for (unsigned i = 0; i < t->nr; i++)
			json_real(j, NULL, t->bins[i].count[p], 3);
		json_close_array(j);
	}
	json_close_array(j);
}

/* @rows per second that a rank was there. */
static void timeline_put_rows(const struct timeline *t, const float *rows, const char *key,
			      struct json *j)
{
	json_open_array(j, key);
	for (unsigned g = 0; g < t->groups; g++) {
		const float *row = rows + (size_t)g * TIMELINE_INTERVALS;
		const float *covered = t->rows_covered + (size_t)g * TIMELINE_INTERVALS;

		json_open_array(j, NULL);
		for (unsigned i = 0; i < t->nr; i++)
			json_real(j, NULL,
				  covered[i] > 0 ? (double)row[i] / (double)covered[i]
						 : (double)NAN,
				  3);
		json_close_array(j);
	}
	json_close_array(j);
}

/* Of each of the ranks that were not part of it; not if there are none. */
static void put_others(const struct timeline *t, const struct stall *s, struct json *j)
{
	double each = t->nr_ranks ? (double)t->nr_accelerators / t->nr_ranks : 0;

	if (s->others_seconds <= 0)
		return;
	json_real(j, "others_per_second", s->others / s->others_seconds, 4);
	json_real(j, "others_usually", t->usual, 4);
	json_real(j, "others_wait_share",
		  each > 0 ? s->others_load / (s->others_seconds * each) : (double)NAN, 4);
}

static uint64_t count_ranks(const struct timeline *t, const struct stall *s)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < timeline_rank_words(t); i++)
		nr += (uint64_t)__builtin_popcountll(s->ranks[i]);
	return nr;
}

static void put_stalls(const struct timeline *t, struct json *j)
{
	json_open_array(j, "stalls");
	for (unsigned i = 0; i < t->nr_stalls; i++) {
		const struct stall *s = &t->stalls[i];

		json_open_object(j, NULL);
		json_real(j, "ms", (double)s->ns * 1e-6, 5);
		json_real(j, "at_seconds", (double)s->start * 1e-9, 6);
		json_u64(j, "epoch", s->epoch);
		json_u64(j, "rank", s->rank);
		json_u64(j, "ranks", count_ranks(t, s));
		json_real(j, "wait_ms", (double)s->wait * 1e-6, 5);
		json_u64(j, "sample", s->sample);
		json_string(j, "file", s->name);
		put_others(t, s, j);
		json_close_object(j);
	}
	json_close_array(j);
}

void timeline_put(const struct timeline *t, struct json *j, const char *key)
{
	if (t->nr == 0) {
		json_null(j, key);
		return;
	}
	json_open_object(j, key);
	json_u64(j, "ranks", t->nr_ranks);
	json_u64(j, "accelerators", t->nr_accelerators);
	json_real(j, "width_seconds", seconds_of(t), 9);
	json_u64(j, "started_ms", t->started / 1000000u);
	put_columns(t, j);
	put_heat(t, j);
	timeline_put_rows(t, t->rows, "rank_rates", j);
	if (!timeline_is_empty(t, last_rank, true))
		timeline_put_rows(t, t->rows_busy, "rank_busy_shares", j);
	put_stalls(t, j);
	json_close_object(j);
}
