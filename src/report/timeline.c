#include "report/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "run/folder.h"
#include "run/series.h"

enum {
	INTERVALS = 600, /* at most */
	GROUPS = 64,     /* of ranks */
	STALLS = 10,
	RANKS_MAX = 1 << 20,
};

/*
 * A minute of a run on one rank has as many intervals as a month on a thousand: 4,800 bytes each.
 */
struct bin {
	double covered; /* rank-seconds that records cover */
	double samples, bytes, steps, load, compute, errors, latency, cpu, memory;
	double requests, retries, throttled, names, listed;
	double count[SERIES_PLACES];
	double low, high; /* samples/s of the slowest and the fastest rank */
	unsigned slowest, nr_ranks;
};

struct stall {
	uint64_t ns, start, sample;
	unsigned rank, epoch;
	char name[SERIES_NAME_MAX + 1];
};

struct timeline {
	unsigned nr_ranks, nr, groups; /* files; intervals in use */
	unsigned nr_damaged, first_damaged, nr_refused, first_refused, nr_accelerators;
	struct shoal_err why; /* name of the first file that was refused */
	uint64_t started, end, width;
	struct bin *bins;
	double *rank;          /* samples of the rank that is being read, and */
	double *rank_covered;  /* seconds, by interval */
	float *rows;           /* samples/s, by group and interval */
	unsigned *nr_in_group; /* ranks */
	struct stall stalls[STALLS];
	unsigned nr_stalls, at_rank;
};

/* ---- Reading ---- */

static int each_record(const char *folder, unsigned rank, series_each_fn *each, void *self,
		       struct series_head *ret_head, bool *ret_damaged, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	struct map m = MAP_CLOSED;
	size_t end = 0;
	int rc = run_series_path(folder, (int)rank, path, err);

	if (rc == 0)
		rc = map_open(path, &m, err);
	if (rc < 0)
		return rc;
	rc = series_read(m.addr, m.len, ret_head, each, self, &end, err);
	*ret_damaged = rc == 0 && (end < m.len || map_faulted(&m));
	map_close(&m);
	return rc;
}

static bool plausible(const struct series_record *r)
{
	/* Ten years: a damaged time must not stretch the page. */
	const uint64_t most = UINT64_C(315360000) * 1000000000u;

	return r->start < most && r->duration < most;
}

static int timeline_find_end(void *self, const struct series_record *r)
{
	struct timeline *t = self;

	if (plausible(r) && r->start + r->duration > t->end)
		t->end = r->start + r->duration;
	return 0;
}

static void keep_stall(struct timeline *t, const struct series_record *r)
{
	struct stall one = { .ns = r->slow,
			     .start = r->slow_start,
			     .sample = r->slow_sample,
			     .rank = t->at_rank,
			     .epoch = r->epoch };
	unsigned at = t->nr_stalls < STALLS ? t->nr_stalls : STALLS - 1;

	if (r->slow == 0 || (t->nr_stalls == STALLS && r->slow <= t->stalls[STALLS - 1].ns))
		return;
	memcpy(one.name, r->name, sizeof(one.name));
	for (; at > 0 && t->stalls[at - 1].ns < one.ns; at--)
		t->stalls[at] = t->stalls[at - 1];
	t->stalls[at] = one;
	if (t->nr_stalls < STALLS)
		t->nr_stalls++;
}

/* Add @part of a record to an interval. */
static void timeline_add_part(struct bin *b, const struct series_record *r, double part)
{
	b->covered += part * (double)r->duration * 1e-9;
	b->samples += part * (double)r->samples;
	b->bytes += part * (double)r->bytes;
	b->steps += part * (double)r->nr_steps;
	b->load += part * (double)r->load * 1e-9;
	b->compute += part * (double)r->compute * 1e-9;
	b->errors += part * (double)r->errors;
	b->latency += part * (double)r->latency * 1e-9;
	b->cpu += part * (double)r->cpu * 1e-9;
	b->memory += part * (double)r->memory * (double)r->duration * 1e-9;
	b->requests += part * (double)r->requests;
	b->retries += part * (double)r->retries;
	b->throttled += part * (double)r->throttled;
	for (size_t i = 0; i < SERIES_PLACES; i++)
		b->count[i] += part * (double)r->count[i];
}

static int add_record(void *self, const struct series_record *r)
{
	struct timeline *t = self;
	uint64_t from = r->start / t->width, to = (r->start + r->duration) / t->width;

	if (r->kind == SERIES_STEPS || !plausible(r) || r->duration == 0)
		return 0;
	if (r->kind == SERIES_SECOND)
		keep_stall(t, r);
	for (uint64_t i = from; i <= to && i < t->nr; i++) {
		uint64_t low = u64_max(r->start, i * t->width);
		uint64_t high = u64_min(r->start + r->duration, (i + 1) * t->width);
		double part = high > low ? (double)(high - low) / (double)r->duration : 0;

		if (r->kind == SERIES_LISTED) {
			t->bins[i].names += part * (double)r->names;
			t->bins[i].listed += part * (double)r->duration * 1e-9;
			continue;
		}
		timeline_add_part(&t->bins[i], r, part);
		t->rank[i] += part * (double)r->samples;
		t->rank_covered[i] += part * (double)r->duration * 1e-9;
	}
	return 0;
}

/* After a rank's last record: compare the rank with the others. */
static void add_rank(struct timeline *t, unsigned rank)
{
	unsigned g =
		t->nr_ranks <= GROUPS ? rank : (unsigned)((uint64_t)rank * GROUPS / t->nr_ranks);

	t->nr_in_group[g]++;
	for (unsigned i = 0; i < t->nr; i++) {
		struct bin *b = &t->bins[i];
		double rate;

		/* A rank that has ended, or not begun, is not slow. */
		if (t->rank_covered[i] < 0.25e-9 * (double)t->width)
			continue;
		rate = t->rank[i] / t->rank_covered[i];
		t->rows[(size_t)g * INTERVALS + i] += (float)rate;
		if (b->nr_ranks == 0 || rate < b->low) {
			b->low = rate;
			b->slowest = rank;
		}
		if (b->nr_ranks == 0 || rate > b->high)
			b->high = rate;
		b->nr_ranks++;
	}
}

static unsigned count_files(const char *folder)
{
	char path[RUN_PATH_MAX];
	unsigned nr = 0;

	while (nr < RANKS_MAX && run_series_path(folder, (int)nr, path, NULL) == 0 &&
	       access(path, F_OK) == 0)
		nr++;
	return nr;
}

static int allocate_bins(struct timeline *t, struct shoal_err *err)
{
	const uint64_t second = 1000000000u;

	t->nr = (unsigned)u64_min(u64_max(1, (t->end + second - 1) / second), INTERVALS);
	t->width = u64_max(1, (t->end + t->nr - 1) / t->nr);
	t->groups = t->nr_ranks < GROUPS ? t->nr_ranks : GROUPS;
	t->bins = calloc(t->nr, sizeof(*t->bins));
	t->rank = calloc(t->nr, sizeof(*t->rank));
	t->rank_covered = calloc(t->nr, sizeof(*t->rank_covered));
	t->rows = calloc((size_t)GROUPS * INTERVALS, sizeof(*t->rows));
	t->nr_in_group = calloc(GROUPS, sizeof(*t->nr_in_group));
	if (!t->bins || !t->rank || !t->rank_covered || !t->rows || !t->nr_in_group)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* The first pass: how long the run was, and which files cannot be read. */
static void look_at(struct timeline *t, const char *folder, unsigned rank)
{
	struct series_head head = { 0 };
	struct shoal_err err = { "" };
	bool damaged = false;

	if (each_record(folder, rank, timeline_find_end, t, &head, &damaged, &err) < 0) {
		if (t->nr_refused++ == 0) {
			t->first_refused = rank;
			t->why = err;
		}
		return;
	}
	if (damaged && t->nr_damaged++ == 0)
		t->first_damaged = rank;
	t->started = t->started ? t->started : head.started;
	t->nr_accelerators += head.nr_accelerators;
}

int timeline_read(const char *folder, struct timeline **ret_t, struct shoal_err *err)
{
	struct timeline *t = calloc(1, sizeof(*t));
	struct series_head head;
	struct shoal_err own;
	bool damaged;
	int rc = 0;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->nr_ranks = count_files(folder);
	for (unsigned rank = 0; rank < t->nr_ranks; rank++)
		look_at(t, folder, rank);
	if (t->end > 0)
		rc = allocate_bins(t, err);
	for (t->at_rank = 0; rc == 0 && t->end > 0 && t->at_rank < t->nr_ranks; t->at_rank++) {
		memset(t->rank, 0, t->nr * sizeof(*t->rank));
		memset(t->rank_covered, 0, t->nr * sizeof(*t->rank_covered));
		if (each_record(folder, t->at_rank, add_record, t, &head, &damaged, &own) == 0)
			add_rank(t, t->at_rank);
	}
	if (rc < 0)
		t = timeline_free(t);
	*ret_t = t;
	return rc;
}

struct timeline *timeline_free(struct timeline *t)
{
	if (t) {
		free(t->bins);
		free(t->rank);
		free(t->rank_covered);
		free(t->rows);
		free(t->nr_in_group);
	}
	free(t);
	return NULL;
}

bool timeline_any(const struct timeline *t)
{
	return t->nr_ranks > 0;
}

/* ---- Writing ---- */

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

/*
 * The latency that @share of the counts do not exceed, in ms. Inside a place, values are assumed to
 * be spread evenly in the logarithm.
 */
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

/* Rates are per second that records cover: the last interval may be shorter. */
static double rate_of(const struct bin *b, double sum)
{
	return b->covered > 0 && b->nr_ranks ? sum / b->covered * b->nr_ranks : (double)NAN;
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
RATE(memory_bytes, memory)
RATE(requests_rate, requests)
RATE(retries_rate, retries)
RATE(throttled_rate, throttled)

static double wait_share(const struct timeline *t, const struct bin *b)
{
	double ranks = t->nr_ranks - t->nr_refused;
	double each = ranks > 0 ? t->nr_accelerators / ranks : 1;

	return b->covered > 0 && each > 0 ? b->load / (b->covered * each) : (double)NAN;
}

static double busy_share(const struct timeline *t, const struct bin *b)
{
	double ranks = t->nr_ranks - t->nr_refused;
	double each = ranks > 0 ? t->nr_accelerators / ranks : 1;

	return b->covered > 0 && each > 0 ? b->compute / (b->covered * each) : (double)NAN;
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
} columns[] = {
	{ "samples_per_second", samples_rate },
	{ "bytes_per_second", bytes_rate },
	{ "rank_low", low_rate },
	{ "rank_high", high_rate },
	{ "slowest_rank", slowest_rank },
	{ "steps_per_second", steps_rate },
	{ "wait_share", wait_share },
	{ "busy_share", busy_share },
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

/* A column with only zeros is useless, and is left out. */
static bool timeline_is_empty(const struct timeline *t, bin_value *value)
{
	for (unsigned i = 0; i < t->nr; i++) {
		double v = value(t, &t->bins[i]);

		if (!isnan(v) && v != 0)
			return false;
	}
	return true;
}

static void put_columns(const struct timeline *t, struct json *j)
{
	json_open_object(j, "columns");
	for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
		if (timeline_is_empty(t, columns[c].value) && columns[c].value != slowest_rank)
			continue;
		json_open_array(j, columns[c].name);
		for (unsigned i = 0; i < t->nr; i++)
			json_real(j, NULL, columns[c].value(t, &t->bins[i]), 4);
		json_close_array(j);
	}
	json_close_object(j);
}

/* Counts by place and interval, from the first to the last place that has any. */
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

static void timeline_put_rows(const struct timeline *t, struct json *j)
{
	json_open_array(j, "rank_rates");
	for (unsigned g = 0; g < t->groups; g++) {
		json_open_array(j, NULL);
		for (unsigned i = 0; i < t->nr; i++)
			json_real(j, NULL,
				  t->nr_in_group[g] ? (double)t->rows[(size_t)g * INTERVALS + i] /
							      t->nr_in_group[g]
						    : (double)NAN,
				  3);
		json_close_array(j);
	}
	json_close_array(j);
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
		json_u64(j, "sample", s->sample);
		json_string(j, "file", s->name);
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
	timeline_put_rows(t, j);
	put_stalls(t, j);
	json_close_object(j);
}

/* ---- Steps ---- */

struct adding {
	struct outputs *o;
	unsigned rank, nr_ranks;
	uint32_t nr_accelerators;
	int rc;
};

static int add_steps(void *self, const struct series_record *r)
{
	struct adding *a = self;
	double nr = (double)u64_max(1, r->nr_steps), each = fmax(1, a->nr_accelerators);

	if (r->kind != SERIES_STEPS || r->eval || r->nr_steps == 0 ||
	    r->first_step > UINT64_C(1) << 40)
		return 0;
	a->rc = outputs_add(a->o, r->epoch, r->first_step,
			    &(struct outputs_step){ .rank = a->rank,
						    .nr_ranks = a->nr_ranks,
						    .wait = (double)r->load * 1e-9 / nr / each,
						    .wait_max = (double)r->load_max * 1e-9,
						    .seconds = (double)(r->load + r->compute) *
							       1e-9 / nr / each });
	return a->rc;
}

int timeline_add_steps(const char *folder, struct outputs *o, struct shoal_err *err)
{
	unsigned nr = count_files(folder);
	struct series_head head = { 0 };
	struct shoal_err own;
	bool damaged;

	for (unsigned rank = 0; rank < nr; rank++) {
		struct adding a = { .o = o, .rank = rank, .nr_ranks = nr, .nr_accelerators = 1 };

		(void)!each_record(folder, rank, add_steps, &a, &head, &damaged, &own);
		if (a.rc < 0)
			return err_set(err, a.rc, "out of memory");
	}
	return 0;
}
