#include "cli/read_measure.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "load/audit.h"
#include "load/engine.h"
#include "load/loader.h"

/* Kinds of mail, beside those of run/watch.h: end, because a rank was told to; and what a rank has
 * read since its last report, a struct read_report. */
#define MAIL_STOP   1u
#define MAIL_REPORT 2u

/* So often a rank reports; but rank 0 gets no more reports per second than this. */
#define REPORT_SECONDS 1.0
#define REPORTS_MAX    500.0

/* Seconds between checks for news from other ranks. */
#define LISTEN_EVERY 0.1

/* What was read, for the progress line: that of other ranks may be larger or smaller samples. */
struct read_report {
	uint64_t bytes, samples;
};

/* This rank's progress in the epoch, and its progress when the warm-up ended. */
struct read_position {
	uint64_t steps;
	uint64_t more; /* samples of the next step, which comes in pieces */
};

struct read_measure {
	const struct read_plan *plan;
	struct comm *comm;
	struct read_outcome *o;
	struct load_meter meter;
	double listened;

	/* Of this measurement. */
	double start;       /* the warm-up begins */
	double counted;     /* the start of the time that counts, and its end */
	double end;         /* DBL_MAX: there is no limit */
	double from;        /* when this rank began to count; 0: not yet */
	uint64_t nr_before; /* samples of the epochs before, of all ranks */
	/* Over all measurements: of this rank, what it has reported of that and when, and what rank
	 * 0 knows of the others. */
	struct read_report mine, reported, others;
	double reported_at;
	uint64_t bytes_shown;   /* of all ranks */
	bool stopped;           /* the time is up, or a rank was interrupted */
	bool told, told_others; /* to stop; and the message was passed on */

	/* Of this epoch. */
	struct read_position at, mark;
	struct load_tally before; /* at the mark */
	struct load_tally one;
	struct load_tally sum_before; /* of the measurements before this one */
	struct series_step step;      /* since the last whole one */
};

struct read_measure *read_measure_new(const struct read_plan *plan, struct comm *comm,
				      struct read_outcome *o)
{
	struct read_measure *m = calloc(1, sizeof(*m));

	o->each = calloc((size_t)plan->repeats, sizeof(*o->each));
	if (!m || !o->each) {
		free(m);
		return NULL;
	}
	m->plan = plan;
	m->comm = comm;
	m->o = o;
	o->once = o->whole = true;
	return m;
}

/* ---- Progress ---- */

static uint64_t planned_samples(const struct read_plan *plan)
{
	if (plan->steps < plan->epoch_samples / plan->step_samples)
		return plan->steps * plan->step_samples;
	return plan->epoch_samples;
}

/*
 * The bytes of all ranks, which advance together: as many samples each as this one, of the mean
 * size that they have reported; until then of the size of this rank's.
 */
static uint64_t bytes_of_all(struct read_measure *m)
{
	double ranks = comm_place(m->comm)->size, all = (double)m->mine.bytes * ranks;

	if (m->others.samples > 0)
		all = (double)m->mine.bytes + (ranks - 1) * (double)m->mine.samples *
						      (double)m->others.bytes /
						      (double)m->others.samples;
	m->bytes_shown = u64_max(m->bytes_shown, (uint64_t)all);
	return m->bytes_shown;
}

/* Tell rank 0 what this rank has read since the last time. */
static int read_report_bytes(struct read_measure *m, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(m->comm);
	double every = place->size / REPORTS_MAX;
	struct read_report r = { m->mine.bytes - m->reported.bytes,
				 m->mine.samples - m->reported.samples };

	if (place->rank == 0 || cli_talk.quiet || cli_talk.style == CLI_SILENT || r.samples == 0 ||
	    m->listened - m->reported_at < (every > REPORT_SECONDS ? every : REPORT_SECONDS))
		return 0;
	m->reported = m->mine;
	m->reported_at = m->listened;
	return comm_post(m->comm, 0, MAIL_REPORT, &r, sizeof(r), err);
}

static void read_take_report(struct read_measure *m, const struct comm_mail *mail)
{
	struct read_report r;

	if (mail->kind != MAIL_REPORT || mail->len != sizeof(r))
		return;
	memcpy(&r, mail->data, sizeof(r));
	m->others.bytes += r.bytes;
	m->others.samples += r.samples;
}

/* For all ranks, as far as this rank can know: they advance together. */
static void show_read(struct read_measure *m, double now)
{
	const struct read_plan *plan = m->plan;
	struct cli_step step = { .what = m->from > 0 ? "samples" : "samples (warm-up)" };
	uint64_t one = planned_samples(plan);
	double limit = (double)(plan->warm_up_ms + plan->duration_ms) * 1e-3;

	if (m->o->line.silent && !m->o->line.listen)
		return;
	step.done = m->nr_before + u64_min(m->at.steps * plan->step_samples, one);
	step.bytes = bytes_of_all(m);
	if (plan->duration_ms) {
		step.share =
			((double)m->o->nr_each + (now - m->start) / limit) / (double)plan->repeats;
		step.left = limit * (double)(plan->repeats - m->o->nr_each) - (now - m->start);
	} else {
		step.total = plan->repeats * plan->epochs * one;
	}
	cli_progress_show(&m->o->line, &step);
}

/* ---- Stopping ---- */

/* A rank sends it to rank 0, and rank 0 to all others. */
static int tell_others(struct read_measure *m, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(m->comm);
	int first = place->rank == 0 ? 1 : 0, end = place->rank == 0 ? place->size : 1, rc = 0;

	if (m->told_others)
		return 0;
	m->told_others = true;
	for (int r = first; r < end && rc == 0; r++)
		rc = comm_post(m->comm, r, MAIL_STOP, NULL, 0, err);
	return rc;
}

int read_measure_poll(void *measure, struct shoal_err *err)
{
	struct read_measure *m = measure;
	struct comm_mail mail;
	int rc = 0;

	while (comm_place(m->comm)->size > 1 && (rc = comm_poll(m->comm, 0, &mail, err)) == 1) {
		m->told |= mail.kind == MAIL_STOP;
		read_take_report(m, &mail);
		if (m->plan->watch)
			(void)run_watch_mail(m->plan->watch, &mail);
	}
	m->listened = clock_seconds();
	if (m->start > 0)
		show_read(m, m->listened); /* how long nothing has come */
	if (rc >= 0)
		rc = read_report_bytes(m, err);
	m->told |= __atomic_load_n(&cli_stop, __ATOMIC_RELAXED);
	if (rc >= 0 && m->told)
		rc = tell_others(m, err);
	if (rc >= 0 && m->told)
		return err_set(err, -ECANCELED, "interrupted");
	if (rc >= 0 && m->listened >= m->end)
		return err_set(err, -ETIME, "the time is up");
	return rc < 0 ? rc : 0;
}

/* ---- Reading ---- */

/* The warm-up is over: what was read until now does not count. */
static void set_mark(struct read_measure *m, const struct shoal_loader *l, double now)
{
	m->from = now;
	m->end += now - m->counted; /* a step may have taken longer than the warm-up */
	m->mark = m->at;
	load_meter_start(&m->meter);
	if (m->at.steps > 0)
		load_tally_take(&m->before, l);
}

/* After a batch. Returns 1, 0 if the time is up, or an error. */
static int look_at_clock(struct read_measure *m, const struct shoal_loader *l,
			 const struct shoal_batch *batch, struct shoal_err *err)
{
	double now = clock_seconds();
	int rc = 0;

	show_read(m, now);
	if (batch->last && m->from <= 0 && now >= m->counted)
		set_mark(m, l, now);
	else if (batch->last && m->from > 0 && now >= m->end)
		return 0;
	if (now - m->listened >= LISTEN_EVERY)
		rc = read_measure_poll(m, err);
	return rc < 0 ? rc : 1;
}

static void count_batch(struct read_measure *m, const struct shoal_batch *batch)
{
	for (size_t i = 0; i < batch->nr; i++) {
		const struct shoal_sample *s = &batch->sample[i];

		bool whole = !s->error && s->off + s->len >= s->size;

		m->mine.bytes += s->len;
		m->mine.samples += whole;
		m->at.more += whole;
	}
	if (batch->last) {
		m->at.steps++;
		m->at.more = 0;
	}
}

/* The batch, in the time series. @asked: when this rank began to wait for it, by clock_now(). */
static void read_to_series(struct read_measure *m, const struct shoal_batch *batch, uint64_t asked)
{
	struct series_step *step = &m->step;
	uint64_t now;

	if (!m->plan->series)
		return;
	now = clock_now();
	for (size_t i = 0; i < batch->nr; i++) {
		const struct shoal_sample *s = &batch->sample[i];
		const struct load_request *r = load_request_of(batch, i);

		step->errors += s->error != 0;
		step->bytes += s->error ? 0 : s->len;
		step->samples += !s->error && s->off + s->len >= s->size;
		if (!s->error)
			series_sample(m->plan->series, r->started, r->finished - r->started, s->id);
	}
	step->load += now - asked;
	step->load_max = step->load;
	if (!batch->last)
		return;
	step->now = now;
	series_step(m->plan->series, step);
	*step = (struct series_step){ 0 };
}

/* Returns 0 at the end of the epoch, of the steps or of the time. */
static int read_steps(struct read_measure *m, struct shoal_loader *l, struct shoal_err *err)
{
	const struct shoal_batch *batch;
	int rc = m->told ? -ECANCELED : 1;

	while (rc == 1 && m->at.steps < m->plan->steps) {
		uint64_t asked = m->plan->series || m->plan->trace ? clock_now() : 0;

		rc = shoal_loader_next(l, &batch, err);
		m->o->first = m->o->first > 0 ? m->o->first : clock_seconds() - m->o->started;
		if (rc != 1)
			break;
		if (m->plan->trace)
			trace_batch(m->plan->trace, batch, asked, clock_now());
		count_batch(m, batch);
		read_to_series(m, batch, asked);
		rc = look_at_clock(m, l, batch, err);
		shoal_loader_give_back(l, batch);
		m->stopped = rc == 0;
	}
	return rc < 0 ? rc : 0;
}

/* ---- Adding up ---- */

static uint64_t *words_of(struct load_tally *t)
{
	return (uint64_t *)(void *)t;
}

#define TALLY_WORDS (sizeof(struct load_tally) / sizeof(uint64_t))

static int subtract_warm_up(struct read_measure *m, const struct shoal_order *order, uint64_t rank,
			    struct shoal_err *err)
{
	const struct read_position *p = m->from > 0 ? &m->mark : &m->at;
	uint64_t *one = words_of(&m->one), *before = words_of(&m->before), pool = m->one.pool_bytes;
	struct load_sums s;
	int rc;

	if (m->from <= 0)
		m->before = m->one; /* everything was warm-up */
	m->before.nr_expected = 0;
	memset(m->before.expected, 0, sizeof(m->before.expected));
	for (size_t i = 0; i < TALLY_WORDS; i++)
		one[i] -= before[i];
	m->one.pool_bytes = pool;
	rc = load_sums_expect_own(order, p->steps, p->more, rank, &s, err);
	if (rc < 0)
		return rc;
	m->one.expected[0] -= s.ids[0];
	m->one.expected[1] -= s.ids[1];
	m->one.nr_expected -= s.nr;
	return 0;
}

/*
 * What was read of the epoch, over all ranks. If no rank @stopped early, it is compared with the
 * ids that exist.
 */
static int add_up(struct read_measure *m, const struct shoal_loader *l, bool stopped,
		  struct shoal_err *err)
{
	const struct shoal_order *order = load_order(l);
	uint64_t rank = (uint64_t)comm_place(m->comm)->rank;
	struct load_sums s;
	int rc = stopped ? load_sums_expect_own(order, m->at.steps, m->at.more, rank, &s, err)
			 : load_sums_expect(order, m->at.steps, rank, &s, err);

	memset(&m->one, 0, sizeof(m->one));
	load_tally_take(&m->one, l);
	if (rc == 0) {
		memcpy(m->one.expected, s.ids, sizeof(s.ids));
		m->one.nr_expected = s.nr;
	}
	if (rc == 0 && (m->from <= 0 || m->mark.steps > 0))
		rc = subtract_warm_up(m, order, rank, err);
	if (rc < 0) {
		comm_fail(m->comm, err); /* the other ranks are in the reduction */
		return rc;
	}
	return comm_reduce(m->comm, COMM_SUM, words_of(&m->one), TALLY_WORDS, err);
}

static void keep_epoch(struct read_measure *m, struct read_figures *f)
{
	uint64_t *sum = words_of(&m->o->sum), *one = words_of(&m->one);
	uint64_t pool = u64_max(m->o->sum.pool_bytes, m->one.pool_bytes);

	m->o->once &= load_tally_exactly_once(&m->one);
	m->o->whole &= m->one.samples >= m->plan->epoch_samples;
	f->samples += m->one.samples;
	f->bytes += m->one.bytes_delivered;
	for (size_t i = 0; i < TALLY_WORDS; i++)
		sum[i] += one[i];
	m->o->sum.pool_bytes = pool;
}

/* ---- Epochs and measurements ---- */

static int measure_epoch(struct read_measure *m, struct shoal_loader *l, uint64_t epoch,
			 struct read_figures *f, struct shoal_err *err)
{
	uint64_t news[2]; /* whether a rank ended early, and whether one was interrupted */
	int rc;

	m->at = m->mark = (struct read_position){ 0 };
	memset(&m->before, 0, sizeof(m->before));
	m->step = (struct series_step){ 0 };
	rc = shoal_loader_epoch(l, epoch, err);
	if (rc == 0) {
		series_epoch(m->plan->series, clock_now(), (uint32_t)(epoch + 1), false, 0, l,
			     m->plan->cat);
		rc = read_steps(m, l, err);
		series_pause(m->plan->series, clock_now());
	}
	if (rc == -ECANCELED || rc == -ETIME) { /* read_measure_poll() */
		m->stopped = true;
		m->o->waiting = rc == -ETIME;
		rc = 0;
	}
	if (rc < 0)
		return rc;
	news[0] = m->stopped;
	news[1] = m->told;
	rc = comm_reduce(m->comm, COMM_MAX, news, 2, err);
	if (rc == 0)
		rc = add_up(m, l, news[0] != 0, err);
	if (rc < 0)
		return rc;
	m->stopped = news[0];
	f->interrupted = news[1];
	f->epochs++;
	keep_epoch(m, f);
	m->nr_before += m->stopped ? m->at.steps * m->plan->step_samples : planned_samples(m->plan);
	if (m->o->stats.nr_errors == 0) /* otherwise the errors before are to be named */
		shoal_loader_stats(l, &m->o->stats);
	return 0;
}

/* The costs of the processes, which belong to no single epoch. */
static int measure_costs(struct read_measure *m, struct read_figures *f, struct shoal_err *err)
{
	double now = clock_seconds();
	uint64_t used[2], longest[2] = { 0, (uint64_t)(m->o->first * 1e9) };
	int rc;

	m->one.cpu_ns = m->one.bytes_device = 0;
	if (m->from > 0) {
		longest[0] = (uint64_t)((now - m->from) * 1e9);
		load_meter_stop(&m->meter, &m->one);
		m->o->device_told = m->meter.device_told;
	}
	used[0] = m->one.cpu_ns;
	used[1] = m->one.bytes_device;
	rc = comm_reduce(m->comm, COMM_SUM, used, 2, err);
	if (rc == 0)
		rc = comm_reduce(m->comm, COMM_MAX, longest, 2, err);
	m->o->sum.cpu_ns += used[0];
	m->o->sum.bytes_device += used[1];
	m->o->first = (double)longest[1] * 1e-9;
	f->seconds = (double)longest[0] * 1e-9;
	return rc;
}

/* What this measurement has added to the sums of all. */
static void measure_own(const struct read_measure *m, struct read_figures *f)
{
	const struct load_tally *sum = &m->o->sum, *before = &m->sum_before;
	uint64_t samples = sum->samples - before->samples, pages = sum->nr_pages - before->nr_pages;
	struct histogram own;

	f->p50_us = f->p99_us = f->cpu_us = f->cached_share = (double)NAN;
	if (samples == 0)
		return;
	for (size_t i = 0; i < HISTOGRAM_PLACES; i++)
		own.count[i] = sum->latency.count[i] - before->latency.count[i];
	f->p50_us = (double)histogram_at(&own, 0.5) * 1e-3;
	f->p99_us = (double)histogram_at(&own, 0.99) * 1e-3;
	f->cpu_us = (double)(sum->cpu_ns - before->cpu_ns) * 1e-3 / (double)samples;
	if (pages > 0)
		f->cached_share = (double)(sum->nr_cached - before->nr_cached) / (double)pages;
}

static int drop_cache(struct read_measure *m, struct shoal_err *err)
{
	struct cli_progress *line = &m->o->line;
	uint64_t nr[2];
	int rc;

	if (line->terminal && !line->silent)
		cli_progress_put(line, "dropping the files from the page cache");
	rc = load_drop_cache(&m->one, m->comm, m->plan->cat, m->plan->store, m->plan->config,
			     &cli_stop, err);
	if (rc < 0)
		return rc;
	nr[0] = m->one.nr_dropped;
	nr[1] = m->one.nr_kept;
	rc = comm_reduce(m->comm, COMM_SUM, nr, 2, err);
	m->o->sum.nr_dropped = nr[0];
	m->o->sum.nr_kept = nr[1];
	return rc;
}

static int measure_once(struct read_measure *m, struct shoal_loader *l, struct read_figures *f,
			struct shoal_err *err)
{
	const struct read_plan *plan = m->plan;
	int rc = plan->drop ? drop_cache(m, err) : 0;

	if (rc == 0)
		rc = comm_barrier(m->comm, err); /* all begin together */
	if (rc < 0)
		return rc;
	comm_defer_stop(m->comm, true); /* from here on the ranks inform each other */
	m->sum_before = m->o->sum;
	m->start = clock_seconds();
	m->counted = m->start + (double)plan->warm_up_ms * 1e-3;
	m->end = plan->duration_ms ? m->counted + (double)plan->duration_ms * 1e-3 : DBL_MAX;
	m->from = 0;
	m->stopped = false;
	if (plan->warm_up_ms == 0)
		set_mark(m, l, m->start);
	for (uint64_t e = 0; rc == 0 && !m->stopped && (plan->epochs == 0 || e < plan->epochs); e++)
		rc = measure_epoch(m, l, plan->epoch + e, f, err);
	if (rc == 0)
		rc = measure_costs(m, f, err);
	measure_own(m, f);
	comm_defer_stop(m->comm, f->interrupted);
	return rc;
}

static int too_short(const struct read_measure *m, struct shoal_err *err)
{
	return err_set(
		err, -ERANGE,
		"all was read after %.2f s, within the warm-up of %.2f s: give more --epochs, or a --duration",
		clock_seconds() - m->start, (double)m->plan->warm_up_ms * 1e-3);
}

int read_measure_run(struct read_measure *m, struct shoal_loader *l, struct shoal_err *err)
{
	struct read_outcome *o = m->o;
	int rc = 0;

	for (uint64_t i = 0; i < m->plan->repeats && rc == 0 && !o->all.interrupted; i++) {
		struct read_figures *f = &o->each[i];

		rc = measure_once(m, l, f, err);
		o->all.interrupted = f->interrupted;
		if (rc == 0 && f->samples == 0 && f->interrupted)
			break;
		if (rc == 0 && f->samples + o->sum.errors == 0 && m->plan->warm_up_ms > 0)
			rc = too_short(m, err);
		o->nr_each += rc == 0;
		o->all.samples += f->samples;
		o->all.bytes += f->bytes;
		o->all.seconds += f->seconds;
		o->all.epochs = u64_max(o->all.epochs, f->epochs);
	}
	cli_progress_clear(&o->line);
	if (rc == -ECANCELED && o->nr_each > 0) { /* between two measurements */
		o->all.interrupted = true;
		rc = 0;
	}
	if (rc == 0 && o->nr_each == 0)
		rc = err_set(err, -ECANCELED, "interrupted");
	return rc;
}
