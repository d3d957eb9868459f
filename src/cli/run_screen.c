#include "cli/run_screen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"

/* A step that waits longer than this for its batch is shown. */
#define SLOW_SECONDS 1.0

void run_screen_start(struct run_screen *s, bool speaks, struct cli_listen *listen)
{
	*s = (struct run_screen){ .quiet = cli_talk.quiet };
	cli_progress_start_view(&s->line, "run", speaks, listen);
}

void run_screen_clear(struct run_screen *s)
{
	cli_progress_clear(&s->line);
}

void run_screen_say(struct run_screen *s, const char *words)
{
	if (!s->quiet)
		cli_note("run", "%s", words);
}

static void put_left(char *buf, size_t cap, double seconds)
{
	uint64_t s = seconds > 0 && isfinite(seconds) ? (uint64_t)(seconds + 0.5) : 0;

	snprintf(buf, cap, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
}

static void run_screen_json(const struct run_progress *p, bool ended, double seconds)
{
	struct cli_json_line l;

	if (!cli_json_line_open(&l))
		return;
	json_string(&l.json, "progress", "run");
	json_u64(&l.json, "epoch", p->epoch);
	json_u64(&l.json, "epochs", p->nr_epochs);
	json_bool(&l.json, "evaluation", p->eval);
	json_u64(&l.json, "step", p->step);
	json_u64(&l.json, "steps", p->steps);
	json_real(&l.json, "au", p->au, 4);
	json_real(&l.json, "samples_per_second", p->samples_per_second, 6);
	json_real(&l.json, "bytes_per_second", p->bytes_per_second, 6);
	json_real(&l.json, "seconds", seconds, 6);
	json_real(&l.json, "eta_seconds", isfinite(p->seconds_left) ? p->seconds_left : 0, 6);
	json_bool(&l.json, "ended", ended);
	cli_json_line_close(&l);
}

/* The figures of the epoch, which stay when it is over. */
static void keep_last(struct run_screen *s, const struct run_progress *p)
{
	char au[32];

	snprintf(au, sizeof(au), isnan(p->au) ? "-" : "%.1f %%", p->au);
	snprintf(s->last, sizeof(s->last),
		 "epoch %" PRIu64 "/%" PRIu64 "%s: AU %s, %s samples/s, %.1f MB/s, wait %.1f %%",
		 p->epoch, p->nr_epochs, p->eval ? " eval" : "", au,
		 rate_in_words(p->samples_per_second).text, p->bytes_per_second * 1e-6,
		 100.0 * p->wait_share);
}

/* The view of a terminal, and who listens. */
static bool run_screen_live(struct run_screen *s, const struct run_progress *p)
{
	struct live_now n = { .what = "samples",
			      .done = p->samples,
			      .epoch = p->epoch,
			      .nr_epochs = p->nr_epochs,
			      .eval = p->eval,
			      .step = p->step,
			      .nr_steps = p->steps,
			      .share = p->share,
			      .seconds_left = p->step > 0 ? p->seconds_left : (double)NAN,
			      .au = p->au,
			      .samples_per_second = p->samples_per_second,
			      .bytes_per_second = p->bytes_per_second,
			      .slowest_rank = p->slowest_rank,
			      .slowest_seconds = p->slowest_seconds };

	if (p->epoch != s->epoch || p->eval != s->eval) {
		s->before += s->end.samples;
		if (s->line.viewed && *s->last)
			cli_say("run", "%s", s->last);
	}
	if (s->line.viewed) {
		cli_view_note(&s->line.view, clock_seconds(), s->before + p->samples);
		if (p->step > 0)
			keep_last(s, p);
	}
	snprintf(s->wait, sizeof(s->wait), "waiting %.1f %%", 100.0 * p->wait_share);
	s->now = n;
	s->now_at = clock_seconds();
	return cli_progress_live(&s->line, &n, s->wait);
}

void run_screen_wait(struct run_screen *s)
{
	struct live_now n = s->now;

	if (!s->line.viewed || s->now_at <= 0)
		return;
	n.idle = clock_seconds() - s->now_at;
	(void)cli_progress_live(&s->line, &n, s->wait);
}

void run_screen_end(struct run_screen *s, const struct run_result_phase *p)
{
	struct run_progress end = s->end;

	if (!s->line.json || s->line.silent)
		return;
	end.epoch = p->epoch;
	end.eval = p->eval != 0;
	end.step = p->steps;
	end.au = p->steps_counted > 0 ? p->figures.au : (double)NAN;
	end.samples_per_second = p->figures.throughput;
	end.bytes_per_second = p->seconds > 0 ? (double)p->bytes_delivered / p->seconds : 0;
	s->line.shown = clock_seconds();
	run_screen_json(&end, true, s->line.shown - s->line.start);
}

void run_screen_show(struct run_screen *s, const struct run_progress *p)
{
	bool viewed = run_screen_live(s, p);
	char line[512], left[32], au[32];
	size_t len;

	s->epoch = p->epoch;
	s->eval = p->eval;
	s->end = *p;
	/* A tool gets the boundaries of all epochs, a reader what changed since the last line. */
	if (viewed || (s->line.json ? s->line.silent : p->step == 0))
		return;
	if (s->line.json && p->boundary && p->step > 0)
		return; /* run_screen_end() follows */
	if (!cli_progress_is_due(&s->line) && !(s->line.json && p->boundary))
		return;
	if (s->line.json) {
		s->line.shown = clock_seconds();
		run_screen_json(p, false, s->line.shown - s->line.start);
		return;
	}
	put_left(left, sizeof(left), p->seconds_left);
	/* Not known in steps that are excluded. */
	snprintf(au, sizeof(au), isnan(p->au) ? "-" : "%.1f %%", p->au);
	snprintf(line, sizeof(line),
		 "ETA %s, epoch %" PRIu64 "/%" PRIu64 "%s step %" PRIu64 "/%" PRIu64
		 ", AU %s, %s samples/s, %.1f MB/s, wait %.1f %%",
		 left, p->epoch, p->nr_epochs, p->eval ? " eval" : "", p->step, p->steps, au,
		 rate_in_words(p->samples_per_second).text, p->bytes_per_second * 1e-6,
		 100.0 * p->wait_share);
	len = strlen(line);
	if (p->slowest_seconds > SLOW_SECONDS)
		snprintf(line + len, sizeof(line) - len, "; rank %" PRIu64 " waited %.1f s",
			 p->slowest_rank, p->slowest_seconds);
	cli_progress_put(&s->line, line);
}
