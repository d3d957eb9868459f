#include "report/timeline.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "base/stats.h"
#include "report/timeline_private.h"
#include "run/folder.h"

#define RANKS_MAX (1u << 20)
#define SECOND    UINT64_C(1000000000)

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
	/* Ten years: a damaged clock must not stretch the page. */
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

/* One event: at the same time, and of similar length. A short read during a long one is none. */
static bool is_same_stall(const struct stall *a, const struct stall *b)
{
	bool overlap = a->start < b->start + b->ns && b->start < a->start + a->ns;

	return overlap && a->ns >= b->ns / 4 && b->ns >= a->ns / 4;
}

/* Take those out of the list that are the same event as @one, which becomes all of it. */
static void join_stalls(struct timeline *t, struct stall *one)
{
	uint64_t *ranks = one->ranks;
	unsigned kept = 0;

	for (unsigned i = 0; i < t->nr_stalls; i++) {
		const struct stall *s = &t->stalls[i];

		if (!is_same_stall(s, one)) {
			t->stalls[kept++] = *s;
			continue;
		}
		for (size_t k = 0; k < timeline_rank_words(t); k++)
			ranks[k] |= s->ranks[k];
		if (s->ns >= one->ns)
			*one = *s;
		one->ranks = ranks;
	}
	t->nr_stalls = kept;
}

/* A row of bits that no stall of the list has: with this rank alone. */
static uint64_t *timeline_take_row(struct timeline *t)
{
	size_t words = timeline_rank_words(t);
	uint64_t *row = t->ranks;

	for (unsigned i = 0; i < t->nr_stalls; i++)
		if (t->stalls[i].ranks == row) { /* look again from the first stall on */
			row += words;
			i = UINT_MAX;
		}
	memset(row, 0, words * sizeof(*row));
	row[t->at_rank / 64] |= UINT64_C(1) << t->at_rank % 64;
	return row;
}

/* Whether @one becomes part of the list. */
static bool stall_matters(const struct timeline *t, const struct stall *one)
{
	if (t->nr_stalls < TIMELINE_STALLS || one->ns > t->stalls[TIMELINE_STALLS - 1].ns)
		return true;
	for (unsigned i = 0; i < t->nr_stalls; i++)
		if (is_same_stall(&t->stalls[i], one))
			return true;
	return false;
}

static void keep_stall(struct timeline *t, const struct series_record *r)
{
	struct stall one = { .ns = r->slow,
			     .start = r->slow_start,
			     .sample = r->slow_sample,
			     .wait = r->load_max,
			     .rank = t->at_rank,
			     .epoch = r->epoch };
	unsigned at;

	if (r->slow == 0 || !stall_matters(t, &one))
		return;
	memcpy(one.name, r->name, sizeof(one.name));
	one.ranks = timeline_take_row(t);
	join_stalls(t, &one);
	at = t->nr_stalls < TIMELINE_STALLS ? t->nr_stalls++ : TIMELINE_STALLS - 1;
	for (; at > 0 && t->stalls[at - 1].ns < one.ns; at--)
		t->stalls[at] = t->stalls[at - 1];
	t->stalls[at] = one;
}

/* What the other ranks did during each stall, at the resolution of the records. */
static int look_at_others(void *self, const struct series_record *r)
{
	struct timeline *t = self;
	uint64_t end = r->start + r->duration;

	if (r->kind != SERIES_SECOND || !plausible(r) || r->duration == 0)
		return 0;
	for (unsigned i = 0; i < t->nr_stalls; i++) {
		struct stall *s = &t->stalls[i];
		uint64_t low = u64_max(s->start, r->start), high = u64_min(s->start + s->ns, end);
		double part;

		/* A rank whose slowest sample is of the same event has stalled itself. */
		if (high <= low || t->at_rank == s->rank ||
		    is_same_stall(s, &(struct stall){ .ns = r->slow, .start = r->slow_start }))
			continue;
		part = (double)(high - low) / (double)r->duration;
		s->others += part * (double)r->samples;
		s->others_seconds += (double)(high - low) * 1e-9;
		s->others_load += part * (double)r->load * 1e-9;
	}
	return 0;
}

/* The median, so that the stalls themselves do not count. */
static double usual_rate(const struct timeline *t)
{
	double rate[TIMELINE_INTERVALS];
	size_t nr = 0;

	for (unsigned i = 0; i < t->nr; i++)
		if (t->bins[i].covered > 0)
			rate[nr++] = t->bins[i].samples / t->bins[i].covered;
	return nr > 0 ? stats_spread(rate, nr).median : 0;
}

/* Add @part of a record to an interval. */
static void timeline_add_part(struct bin *b, const struct series_record *r, double part)
{
	b->covered += part * (double)r->duration * 1e-9;
	b->span += part * (double)r->duration * 1e-9;
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

static size_t timeline_row(const struct timeline *t, unsigned rank, unsigned i)
{
	unsigned g = t->nr_ranks <= TIMELINE_GROUPS
			     ? rank
			     : (unsigned)((uint64_t)rank * TIMELINE_GROUPS / t->nr_ranks);

	return (size_t)g * TIMELINE_INTERVALS + i;
}

/* Note who was busy longest. */
static void compare_busy(struct bin *b, unsigned rank, const struct own_time *own)
{
	double busy = own->busy / own->covered;

	if (busy <= b->last_busy)
		return;
	b->last_busy = busy;
	b->last_wait = own->wait / own->covered;
	b->last = rank;
}

/* What a rank did in an interval, among the others; @whole: as long as it would be if the rank had
 * been at work all the time. */
static void timeline_compare(struct timeline *t, unsigned rank, unsigned i,
			     const struct own_time *own, uint64_t whole)
{
	struct bin *b = &t->bins[i];
	double rate;

	t->rows[timeline_row(t, rank, i)] += (float)own->samples;
	t->rows_covered[timeline_row(t, rank, i)] += (float)own->covered;
	t->rows_busy[timeline_row(t, rank, i)] += (float)own->busy;
	/* A rank that has ended, or not begun, is not slow. */
	if (own->covered < 0.25e-9 * (double)whole) {
		b->nr_few = t->live ? t->nr_ranks : b->nr_few + (own->covered > 0);
		return;
	}
	compare_busy(b, rank, own);
	rate = own->samples / own->covered;
	if (b->nr_ranks == 0 || rate < b->low) {
		b->low = rate;
		b->slowest = rank;
	}
	if (b->nr_ranks == 0 || rate > b->high)
		b->high = rate;
	b->nr_ranks = t->live ? t->nr_ranks : b->nr_ranks + 1;
}

/* The rank was there, and did nothing: an epoch ended, and the next one had not begun. */
static void timeline_add_gap(struct timeline *t, uint64_t start, uint64_t end)
{
	for (uint64_t i = start / t->width; i <= end / t->width && i < t->nr; i++) {
		uint64_t low = u64_max(start, i * t->width);
		uint64_t high = u64_min(end, (i + 1) * t->width);
		double seconds = high > low ? (double)(high - low) * 1e-9 : 0;

		t->bins[i].span += seconds;
		if (t->live)
			t->rows_covered[timeline_row(t, t->at_rank, (unsigned)i)] += (float)seconds;
		else
			t->rank[i].covered += seconds;
	}
}

static void add_own(struct own_time *to, const struct own_time *own)
{
	to->samples += own->samples;
	to->covered += own->covered;
	to->busy += own->busy;
	to->wait += own->wait;
}

static int add_record(void *self, const struct series_record *r)
{
	struct timeline *t = self;
	uint64_t from = r->start / t->width, to = (r->start + r->duration) / t->width;

	if (r->kind == SERIES_STEPS || !plausible(r) || r->duration == 0)
		return 0;
	if (r->kind == SERIES_SECOND) {
		keep_stall(t, r);
		if (t->ended[t->at_rank] > 0 && r->start > t->ended[t->at_rank])
			timeline_add_gap(t, t->ended[t->at_rank], r->start);
		t->ended[t->at_rank] = r->start + r->duration;
	}
	for (uint64_t i = from; i <= to && i < t->nr; i++) {
		uint64_t low = u64_max(r->start, i * t->width);
		uint64_t high = u64_min(r->start + r->duration, (i + 1) * t->width);
		double part = high > low ? (double)(high - low) / (double)r->duration : 0;
		double covered = part * (double)r->duration * 1e-9;
		double each = part * 1e-9 / timeline_accelerators(t);
		struct own_time own = { .samples = part * (double)r->samples,
					.covered = covered,
					.busy = each * (double)(r->load + r->compute),
					.wait = each * (double)r->load };

		if (r->kind == SERIES_LISTED) {
			t->bins[i].names += part * (double)r->names;
			t->bins[i].listed += covered;
			continue;
		}
		timeline_add_part(&t->bins[i], r, part);
		if (t->live) {
			timeline_compare(t, t->at_rank, (unsigned)i, &own,
					 u64_min(t->width, u64_max(SECOND, r->duration)));
			continue;
		}
		add_own(&t->rank[i], &own);
	}
	return 0;
}

/* After a rank's last record. */
static void add_rank(struct timeline *t, unsigned rank)
{
	for (unsigned i = 0; i < t->nr; i++)
		timeline_compare(t, rank, i, &t->rank[i], t->width);
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
	t->groups = t->nr_ranks < TIMELINE_GROUPS ? t->nr_ranks : TIMELINE_GROUPS;
	t->bins = calloc(TIMELINE_INTERVALS, sizeof(*t->bins));
	t->rank = calloc(TIMELINE_INTERVALS, sizeof(*t->rank));
	t->rows = calloc((size_t)TIMELINE_GROUPS * TIMELINE_INTERVALS, sizeof(*t->rows));
	t->rows_covered = calloc((size_t)TIMELINE_GROUPS * TIMELINE_INTERVALS, sizeof(*t->rows));
	t->rows_busy = calloc((size_t)TIMELINE_GROUPS * TIMELINE_INTERVALS, sizeof(*t->rows));
	t->ended = calloc(t->nr_ranks, sizeof(*t->ended));
	t->ranks = calloc((TIMELINE_STALLS + 1) * timeline_rank_words(t), sizeof(*t->ranks));
	if (!t->ranks || !t->bins || !t->rank || !t->rows || !t->rows_covered || !t->rows_busy ||
	    !t->ended)
		return err_set(err, -ENOMEM, "out of memory");
	return 0;
}

/* As many intervals of one length as the time needs. */
static void divide_time(struct timeline *t)
{
	t->nr = (unsigned)u64_min(u64_max(1, (t->end + SECOND - 1) / SECOND), TIMELINE_INTERVALS);
	t->width = u64_max(1, (t->end + t->nr - 1) / t->nr);
}

/* The first pass: how long it is, and what cannot be read. */
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
	if (t->end > 0) {
		divide_time(t);
		rc = allocate_bins(t, err);
	}
	for (t->at_rank = 0; rc == 0 && t->end > 0 && t->at_rank < t->nr_ranks; t->at_rank++) {
		memset(t->rank, 0, t->nr * sizeof(*t->rank));
		if (each_record(folder, t->at_rank, add_record, t, &head, &damaged, &own) == 0)
			add_rank(t, t->at_rank);
	}
	t->usual = rc == 0 ? usual_rate(t) : 0;
	for (t->at_rank = 0; rc == 0 && t->nr_stalls > 0 && t->at_rank < t->nr_ranks; t->at_rank++)
		(void)!each_record(folder, t->at_rank, look_at_others, t, &head, &damaged, &own);
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
		free(t->ended);
		free(t->ranks);
		free(t->rows);
		free(t->rows_covered);
		free(t->rows_busy);
	}
	free(t);
	return NULL;
}

bool timeline_any(const struct timeline *t)
{
	return t->nr_ranks > 0;
}

/* ---- Live ---- */

int timeline_live(unsigned nr_ranks, unsigned nr_accelerators, uint64_t started,
		  struct timeline **ret_t, struct shoal_err *err)
{
	struct timeline *t = calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return err_set(err, -ENOMEM, "out of memory");
	t->nr_ranks = nr_ranks;
	t->nr_accelerators = nr_accelerators;
	t->started = started;
	t->width = SECOND;
	t->live = true;
	rc = allocate_bins(t, err);
	if (rc < 0)
		t = timeline_free(t);
	*ret_t = t;
	return rc;
}

static void add_bin(struct bin *to, const struct bin *b)
{
	double *sum = (double *)(void *)to;
	const double *more = (const double *)(const void *)b;

	if (b->nr_ranks > 0 && (to->nr_ranks == 0 || b->low < to->low)) {
		to->low = b->low;
		to->slowest = b->slowest;
	}
	if (b->last_busy > to->last_busy) {
		to->last_busy = b->last_busy;
		to->last_wait = b->last_wait;
		to->last = b->last;
	}
	if (b->nr_ranks > 0)
		to->high = to->nr_ranks ? fmax(to->high, b->high) : b->high;
	to->nr_ranks = to->nr_ranks > b->nr_ranks ? to->nr_ranks : b->nr_ranks;
	to->nr_few = to->nr_few > b->nr_few ? to->nr_few : b->nr_few;
	for (size_t i = 0; i < offsetof(struct bin, low) / sizeof(double); i++)
		sum[i] += more[i];
}

static void widen_row(float *row)
{
	const unsigned half = TIMELINE_INTERVALS / 2;

	for (unsigned i = 0; i < half; i++)
		row[i] = row[2 * i] + row[2 * i + 1];
	memset(row + half, 0, half * sizeof(*row));
}

/* Intervals of twice the length. */
static void timeline_widen(struct timeline *t)
{
	for (unsigned i = 0; i < TIMELINE_INTERVALS / 2; i++) {
		struct bin pair = t->bins[2 * i];

		add_bin(&pair, &t->bins[2 * i + 1]);
		t->bins[i] = pair;
	}
	memset(t->bins + TIMELINE_INTERVALS / 2, 0, TIMELINE_INTERVALS / 2 * sizeof(*t->bins));
	for (unsigned g = 0; g < t->groups; g++) {
		size_t at = (size_t)g * TIMELINE_INTERVALS;

		widen_row(t->rows + at);
		widen_row(t->rows_covered + at);
		widen_row(t->rows_busy + at);
	}
	t->width *= 2;
}

void timeline_add(struct timeline *t, unsigned rank, const struct series_record *r)
{
	if (!plausible(r) || rank >= t->nr_ranks)
		return;
	(void)timeline_find_end(t, r);
	while (t->end > TIMELINE_INTERVALS * t->width)
		timeline_widen(t);
	t->nr = (unsigned)((t->end + t->width - 1) / t->width);
	t->at_rank = rank;
	(void)add_record(t, r);
}

/* ---- Steps ---- */

struct adding {
	struct outputs *o;
	unsigned rank, nr_ranks;
	uint32_t nr_accelerators;
	int rc;
};

int timeline_add_step(struct outputs *o, unsigned rank, unsigned nr_ranks, unsigned nr_accelerators,
		      const struct series_record *r)
{
	double nr = (double)u64_max(1, r->nr_steps), each = fmax(1, nr_accelerators);

	/* A damaged number must not make the intervals too wide for the others. */
	if (r->eval || r->nr_steps == 0 || r->first_step > UINT64_C(1) << 40 ||
	    r->nr_steps > UINT64_C(1) << 40)
		return 0;
	return outputs_add(o, r->epoch,
			   &(struct outputs_step){ .rank = rank,
						   .nr_ranks = nr_ranks,
						   .first = r->first_step,
						   .nr = r->nr_steps,
						   .wait = (double)r->load * 1e-9 / nr / each,
						   .wait_max = (double)r->load_max * 1e-9,
						   .seconds = (double)(r->load + r->compute) *
							      1e-9 / nr / each });
}

static int add_steps(void *self, const struct series_record *r)
{
	struct adding *a = self;

	if (r->kind == SERIES_STEPS)
		a->rc = timeline_add_step(a->o, a->rank, a->nr_ranks, a->nr_accelerators, r);
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
