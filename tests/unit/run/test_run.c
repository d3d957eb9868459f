/*
 * Goal: figures are what DLIO's definitions say, computed by hand here; simulated accelerators are
 * ready when their samples are; and a record of steps gives back what was put in, however it was
 * cut off.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "help.h"
#include "report/report.h"
#include "run/metrics.h"
#include "run/node.h"
#include "run/pace.h"
#include "run/result.h"
#include "run/steplog.h"

#define MS UINT64_C(1000000)

static void check_near(double got, double want)
{
	if (!(fabs(got - want) <= 1e-9 * (fabs(want) + 1)))
		fail_msg("%.12g is not %.12g", got, want);
}

/* ---- Figures ---- */

/* A step of 5 ms in the barrier follows each, so the block takes 980 ms. */
static const struct run_step trace[] = {
	{ 0, 500 * MS, 100 * MS, 90 * MS, 0 },
	{ 605 * MS, 10 * MS, 100 * MS, 90 * MS, 0 },
	{ 720 * MS, 20 * MS, 100 * MS, 90 * MS, 0 },
	{ 845 * MS, 30 * MS, 100 * MS, 90 * MS, 0 },
};
#define TRACE_WALL (980 * MS)

static struct step_block block_of(const struct run_step *steps, size_t nr, uint64_t start,
				  uint64_t end)
{
	struct step_block b;

	step_block_start(&b, nr, (struct step_window){ start, end });
	for (size_t i = 0; i < nr; i++)
		step_block_add(&b, &steps[i]);
	return b;
}

static void figures_leave_out_the_steps_outside_the_window(void **state)
{
	static const struct {
		uint64_t start, end;
		double au, planned, throughput;
	} row[] = {
		{ 1, 0, 100 * 300 / 380.0, 100 * 270 / 380.0, 3 * 24 / 0.380 },
		{ 0, 0, 100 * 400 / 980.0, 100 * 360 / 980.0, 4 * 24 / 0.980 },
		{ 1, 1, 100 * 200 / 250.0, 100 * 180 / 250.0, 2 * 24 / 0.250 },
		{ 0, 3, 100 * 100 / 620.0, 100 * 90 / 620.0, 1 * 24 / 0.620 },
		{ 3, 0, 100 * 100 / 150.0, 100 * 90 / 150.0, 1 * 24 / 0.150 },
		{ 2, 2, 0, 0, 0 },
		{ 4, 0, 0, 0, 0 },
		{ 0, 4, 0, 0, 0 },
		{ UINT64_MAX, UINT64_MAX, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct step_block b = block_of(trace, 4, row[i].start, row[i].end);
		struct step_figures f = step_block_figures(&b, 24, TRACE_WALL);

		check_near(f.au, row[i].au);
		check_near(f.au_planned, row[i].planned);
		check_near(f.throughput, row[i].throughput);
	}
}

static void a_block_without_time_has_no_figures(void **state)
{
	struct step_block b = block_of(trace, 4, 1, 0);
	struct step_figures f = step_block_figures(&b, 24, 600 * MS); /* all of it outside */

	(void)state;
	check_near(f.au, 0);
	check_near(f.throughput, 0);
	f = step_block_figures(&b, 24, 600 * MS + 1);
	assert_true(f.throughput > 0);
	b = block_of(trace, 0, 1, 0);
	f = step_eval_figures(&b, 24, 0);
	check_near(f.au, 0);
	check_near(f.throughput, 0);
}

static void the_throughput_of_an_evaluation_is_of_all_its_time(void **state)
{
	struct step_block b = block_of(trace, 4, 1, 0);
	struct step_figures f = step_eval_figures(&b, 8, TRACE_WALL);

	(void)state;
	check_near(f.au, 100 * 300 / 380.0);
	check_near(f.throughput, 4 * 8 / 0.980);
}

static void samples_that_were_not_read_are_in_no_rate(void **state)
{
	struct run_step s[4];
	struct step_block b;

	(void)state;
	memcpy(s, trace, sizeof(s));
	s[0].errors = 5; /* outside */
	s[2].errors = 20;
	b = block_of(s, 4, 1, 0);
	check_near(step_block_figures(&b, 24, TRACE_WALL).throughput, (3 * 24 - 20) / 0.380);
	check_near(step_block_figures(&b, 24, TRACE_WALL).au, 100 * 300 / 380.0);
	check_near(step_eval_figures(&b, 24, TRACE_WALL).throughput, (4 * 24 - 25) / 0.980);
	for (int i = 0; i < 4; i++)
		s[i].errors = 24;
	b = block_of(s, 4, 1, 0);
	check_near(step_block_figures(&b, 24, TRACE_WALL).throughput, 0);
}

static void blocks_of_an_epoch_count_by_their_steps(void **state)
{
	struct step_mean m = { 0 };
	struct step_figures f = step_mean_figures(&m);

	(void)state;
	check_near(f.au, 0);
	step_mean_add(&m, &(struct step_figures){ 80, 70, 1000 }, 300);
	step_mean_add(&m, &(struct step_figures){ 60, 50, 400 }, 100);
	f = step_mean_figures(&m);
	check_near(f.au, 75);
	check_near(f.au_planned, 65);
	check_near(f.throughput, 850);
}

static void the_deviation_is_that_of_the_population(void **state)
{
	static const double values[] = { 2, 4, 4, 4, 5, 5, 7, 9 };
	double mean, stdev;

	(void)state;
	step_mean_stdev(values, 8, &mean, &stdev);
	check_near(mean, 5);
	check_near(stdev, 2);
	step_mean_stdev(values, 1, &mean, &stdev);
	check_near(mean, 2);
	check_near(stdev, 0);
	step_mean_stdev(values, 0, &mean, &stdev);
	check_near(mean, 0);
	check_near(stdev, 0);
}

static void a_result_is_summed_up_over_epochs(void **state)
{
	struct workload w = { .au = 0.85, .dataset.record_bytes = 2 * 1048576.0 };
	struct run_result_phase phases[] = {
		{ .epoch = 1, .figures = { 80, 0, 100 } },
		{ .epoch = 1, .eval = 1, .figures = { 50, 0, 10 } },
		{ .epoch = 2, .figures = { 90, 0, 300 } },
	};
	struct run_result r = { .workload = &w, .phases = phases, .nr_phases = 3 };

	(void)state;
	run_result_sum_up(&r);
	check_near(r.train.au, 85);
	check_near(r.train.au_stdev, 5);
	check_near(r.train.throughput, 200);
	check_near(r.train.throughput_stdev, 100);
	check_near(r.train.io, 400);
	check_near(r.train.io_stdev, 200);
	assert_true(r.train.meets); /* at the bar is enough */
	assert_int_equal(r.eval.nr, 1);
	check_near(r.eval.au, 50);
	check_near(r.eval.io, 20);
	w.au = 0.8500001;
	run_result_sum_up(&r);
	assert_false(r.train.meets);
}

static void a_utilisation_is_known_when_a_step_of_training_counts(void **state)
{
	struct workload w = { .output = { .exclude_start_steps = 1, .exclude_end_steps = 5 } };
	struct run_result_phase phases[] = {
		{ .epoch = 1, .steps = 10, .steps_due = 10 },
		{ .epoch = 1, .eval = 1, .steps = 10, .steps_counted = 4 },
		{ .epoch = 2, .steps = 5, .steps_due = 10, .partial = 1 },
	};
	struct run_result r = { .workload = &w, .phases = phases, .nr_phases = 3 };

	(void)state;
	assert_false(run_result_measured(&r)); /* an epoch of blocks of one step each */
	phases[2].steps_counted = 4;
	assert_false(run_result_measured(&r)); /* the whole epoch is what counts */
	phases[0].steps_counted = 1;
	assert_true(run_result_measured(&r));
	r.phases = &phases[2];
	r.nr_phases = 1;
	assert_true(run_result_measured(&r)); /* stopped: none of its steps is at the end */
	phases[2].steps_counted = 0;
	assert_false(run_result_measured(&r));
}

/* Whoever reads only DLIO's fields must see what the exit status says. */
static void a_run_that_was_not_read_once_is_no_success(void **state)
{
	static const struct {
		uint64_t proof, errors;
		bool partial, success;
	} row[] = {
		{ RUN_PROVEN, 0, false, true },
		{ RUN_NOT_PROVEN, 0, false, true }, /* nothing was left to read */
		{ RUN_WRONG, 0, false, false },     /* one came twice in another's place */
		{ RUN_WRONG, 1, false, false },
		{ RUN_NOT_PROVEN, 0, true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct workload w = { .au = 0.5, .dataset.record_bytes = 1 };
		struct run_result_phase phase = { .epoch = 1,
						  .figures = { 80, 80, 100 },
						  .proof = row[i].proof,
						  .errors = row[i].errors,
						  .partial = row[i].partial };
		struct run_result r = { .workload = &w, .phases = &phase, .nr_phases = 1 };
		char *text = NULL;

		run_result_sum_up(&r);
		assert_int_equal(report_summary_text(&r, &text, NULL), 0);
		assert_non_null(strstr(text, row[i].success
						     ? "\"train_au_meet_expectation\": \"success\""
						     : "\"train_au_meet_expectation\": \"fail\""));
		free(text);
	}
}

/* ---- Simulated accelerators ---- */

static void workers_take_samples_as_they_are_free(void **state)
{
	struct run_workers w;

	(void)state;
	assert_int_equal(run_workers_init(&w, 2, NULL), 0);
	assert_int_equal(run_workers_take(&w, 100, 50), 150); /* the first */
	assert_int_equal(run_workers_take(&w, 100, 30), 130); /* the second */
	assert_int_equal(run_workers_take(&w, 100, 30), 160); /* the second, free at 130 */
	assert_int_equal(run_workers_take(&w, 100, 1), 151);  /* the first */
	assert_int_equal(run_workers_take(&w, 500, 7), 507);  /* both had been free */
	run_workers_release(&w);
}

static void many_workers_are_taken_in_turn_of_the_earliest(void **state)
{
	uint64_t free_at[7] = { 0 };
	struct run_workers w;

	(void)state;
	assert_int_equal(run_workers_init(&w, 7, NULL), 0);
	for (int i = 0; i < 5000; i++) {
		uint64_t read = (uint64_t)i * 3 + random_below(100), takes = random_below(60);
		size_t best = 0;

		for (size_t k = 1; k < 7; k++)
			if (free_at[k] < free_at[best])
				best = k;
		free_at[best] = u64_max(read, free_at[best]) + takes;
		assert_int_equal(run_workers_take(&w, read, takes), free_at[best]);
	}
	run_workers_release(&w);
}

static void each_accelerator_loads_until_its_own_samples_are_there(void **state)
{
	/* Asked at 1000; read long before, at 1200, and at 1500; handed out at 1510. */
	static const uint64_t ready[] = { 400, 1200, 1500 };
	struct run_step s[3] = { { .planned = 300 }, { .planned = 310 }, { .planned = 5 } };

	(void)state;
	assert_int_equal(run_step_plan(s, ready, 3, 1000, 1500, 1510), 1520);
	assert_int_equal(s[0].load, 10); /* what handing out takes, each would wait for */
	assert_int_equal(s[1].load, 210);
	assert_int_equal(s[2].load, 510);
	run_step_done(s, 3, 1000, 1530);
	assert_int_equal(s[0].compute, 300);
	assert_int_equal(s[1].compute, 320); /* it was the last, with... */
	assert_int_equal(s[2].compute, 5);   /* ...1520 against 1515 */
}

static void a_batch_that_was_there_before_takes_only_the_handing_out(void **state)
{
	static const uint64_t ready[] = { 400 };
	struct run_step s = { .planned = 100 };

	(void)state;
	assert_int_equal(run_step_plan(&s, ready, 1, 1000, 400, 1003), 1103);
	assert_int_equal(s.load, 3);
	run_step_done(&s, 1, 1000, 1100); /* a clock that is read early is no step back */
	assert_int_equal(s.compute, 100);
}

static void preprocessing_may_end_after_the_batch_was_handed_out(void **state)
{
	static const uint64_t ready[] = { 2000 };
	struct run_step s = { .planned = 100 };

	(void)state;
	assert_int_equal(run_step_plan(&s, ready, 1, 1000, 900, 1001), 2101);
	assert_int_equal(s.load, 1001);
}

static int stop_now;

static void *stop_soon(void *arg)
{
	pthread_t sleeper = *(pthread_t *)arg;

	usleep(20000);
	__atomic_store_n(&stop_now, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 200 && __atomic_load_n(&stop_now, __ATOMIC_RELAXED) == 1; i++) {
		pthread_kill(sleeper, SIGUSR1);
		usleep(10000);
	}
	return NULL;
}

static void on_signal(int sig)
{
	(void)sig;
}

static void a_sleep_ends_in_time_or_when_it_is_stopped(void **state)
{
	struct sigaction act = { .sa_handler = on_signal };
	uint64_t start = clock_now();
	pthread_t self = pthread_self(), other;

	(void)state;
	sigaction(SIGUSR1, &act, NULL);
	assert_true(run_sleep_until(start + 20 * MS, &stop_now));
	assert_true(clock_now() >= start + 20 * MS);
	assert_true(run_sleep_until(start, &stop_now)); /* it is past */
	assert_int_equal(pthread_create(&other, NULL, stop_soon, &self), 0);
	assert_false(run_sleep_until(start + 60000 * MS, &stop_now));
	assert_true(clock_now() < start + 30000 * MS);
	__atomic_store_n(&stop_now, 2, __ATOMIC_RELAXED);
	pthread_join(other, NULL);
	__atomic_store_n(&stop_now, 0, __ATOMIC_RELAXED);
}

/* ---- The record of steps ---- */

#define RUN 0x1234567890abcdefu

static void make_steps(struct run_step *s, uint32_t nr, uint64_t step)
{
	for (uint32_t a = 0; a < nr; a++)
		s[a] = (struct run_step){ step * 100, step + a, 50 + a, 49, 7 * a };
}

/* Two whole blocks of 3 and 2 steps, and one of 4 that has no end, by 3 accelerators. */
static void write_log(const char *path)
{
	struct step_log log;
	struct run_step s[3];
	struct step_log_block b = { .epoch = 1, .started = 7 };

	assert_int_equal(step_log_create(path, RUN, 3, &log, NULL), 0);
	for (unsigned k = 0; k < 3; k++) {
		b.epoch = k / 2 + 1;
		b.eval = k == 1;
		b.first_step = k;
		b.steps_due = 5 - k;
		assert_int_equal(step_log_start(&log, &b, NULL), 0);
		for (uint64_t i = 0; i < (k == 2 ? 4 : 3 - k); i++) {
			make_steps(s, 3, i);
			assert_int_equal(step_log_step(&log, s, NULL), 0);
		}
		if (k < 2)
			assert_int_equal(step_log_end(&log, 3 - k, 1000 + k, 2000 + k, NULL), 0);
	}
	step_log_close(&log);
}

struct seen {
	uint64_t nr;
	uint32_t accelerator;
};

static int see(void *self, uint32_t accelerator, const struct run_step *s)
{
	struct seen *seen = self;
	uint64_t step = seen->accelerator == UINT32_MAX ? seen->nr / 3 : seen->nr;

	assert_int_equal(s->asked, step * 100);
	assert_int_equal(s->load, step + accelerator);
	assert_int_equal(s->compute, 50 + accelerator);
	assert_int_equal(s->planned, 49);
	assert_int_equal(s->errors, 7 * accelerator);
	seen->nr++;
	return 0;
}

static void what_is_recorded_is_read_again(void **state)
{
	static const struct {
		uint32_t epoch;
		bool eval, whole;
		uint64_t first, nr, wall, ended;
	} want[] = {
		{ 1, false, true, 0, 3, 1000, 2000 },
		{ 1, true, true, 1, 2, 1001, 2001 },
		{ 2, false, false, 2, 4, 300 + 3 + 2 + 52, 7 + 357 },
	};
	struct step_log_block b = { 0 };
	struct step_log log;

	(void)state;
	write_log(test_path("log"));
	assert_int_equal(step_log_open(test_path("log"), RUN, 3, &log, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		struct seen all = { .accelerator = UINT32_MAX }, one = { .accelerator = 1 };
		struct step_log_view view;

		assert_int_equal(step_log_next(&log, &b, NULL), 1);
		assert_int_equal(b.epoch, want[i].epoch);
		assert_int_equal(b.eval, want[i].eval);
		assert_int_equal(b.whole, want[i].whole);
		assert_int_equal(b.first_step, want[i].first);
		assert_int_equal(b.steps_due, 5 - i);
		assert_int_equal(b.nr_steps, want[i].nr);
		assert_int_equal(b.wall, want[i].wall);
		assert_int_equal(b.ended, want[i].ended);
		assert_int_equal(step_log_read(&log, &b, see, &all, NULL), 0);
		assert_int_equal(all.nr, 3 * want[i].nr);
		assert_int_equal(step_log_view_open(&log, &view, NULL), 0);
		assert_int_equal(step_log_view_read(&view, &b, 1, see, &one, NULL), 0);
		step_log_view_close(&view);
		assert_int_equal(one.nr, want[i].nr);
	}
	assert_int_equal(step_log_next(&log, &b, NULL), 0);
	step_log_close(&log);
	unlink(test_path("log"));
}

static void a_record_cut_off_anywhere_keeps_its_whole_steps(void **state)
{
	uint8_t *bytes;
	size_t len;

	(void)state;
	write_log(test_path("log"));
	bytes = file_read(test_path("log"), &len);
	for (size_t cut = 0; cut <= len; cut++) {
		struct step_log_block b = { 0 };
		struct step_log log;
		uint64_t steps = 0, items = cut / 40;
		int rc;

		file_write(test_path("log"), bytes, cut);
		rc = step_log_open(test_path("log"), RUN, 3, &log, NULL);
		if (items == 0) {
			assert_int_equal(rc, -ESTALE);
			continue;
		}
		assert_int_equal(rc, 0);
		while ((rc = step_log_next(&log, &b, NULL)) == 1)
			steps += b.nr_steps;
		assert_int_equal(rc, 0);
		/* Head; block, 9, end; block, 6, end; block, 12. */
		items -= 1;
		assert_int_equal(steps, (items > 10  ? 3
					 : items > 0 ? (items - 1) / 3
						     : 0) +
						(items > 18   ? 2
						 : items > 11 ? (u64_min(items, 18) - 12) / 3
							      : 0) +
						(items > 19 ? (items - 20) / 3 : 0));
		step_log_close(&log);
	}
	free(bytes);
	unlink(test_path("log"));
}

static void steps_are_excluded_at_the_end_of_an_epoch_only(void **state)
{
	struct step_window window = { 1, 2 };
	struct step_log_block b = { .first_step = 3, .nr_steps = 6, .steps_due = 10 };

	(void)state;
	assert_int_equal(step_log_window(&b, window).exclude_start, 1);
	assert_int_equal(step_log_window(&b, window).exclude_end, 0); /* it was killed there */
	b.nr_steps = 7;
	assert_int_equal(step_log_window(&b, window).exclude_start, 1);
	assert_int_equal(step_log_window(&b, window).exclude_end, 2);
}

static void a_record_that_was_cut_short_is_told(void **state)
{
	struct step_log_view view;
	struct step_log log;
	struct shoal_err err = { "" };

	(void)state;
	write_log(test_path("log"));
	assert_int_equal(step_log_open(test_path("log"), RUN, 3, &log, NULL), 0);
	assert_int_equal(truncate(test_path("log"), 400), 0);
	assert_int_equal(step_log_view_open(&log, &view, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "truncated"));
	step_log_close(&log);
	unlink(test_path("log"));
}

static void a_block_that_is_cut_goes_on_behind_the_cut(void **state)
{
	struct step_log_block b = { 0 }, next = { .epoch = 2, .first_step = 4 };
	struct seen all = { .accelerator = UINT32_MAX };
	struct run_step s[3];
	struct step_log log;

	(void)state;
	write_log(test_path("log"));
	assert_int_equal(step_log_open(test_path("log"), RUN, 3, &log, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(step_log_next(&log, &b, NULL), 1);
	assert_int_equal(step_log_cut(&log, &b, 2, NULL), 0);
	assert_int_equal(step_log_end(&log, 2, 5, 6, NULL), 0);
	assert_int_equal(step_log_start(&log, &next, NULL), 0);
	make_steps(s, 3, 0);
	assert_int_equal(step_log_step(&log, s, NULL), 0);
	b = (struct step_log_block){ 0 };
	for (int i = 0; i < 3; i++)
		assert_int_equal(step_log_next(&log, &b, NULL), 1);
	assert_true(b.whole && b.nr_steps == 2 && b.wall == 5);
	assert_int_equal(step_log_read(&log, &b, see, &all, NULL), 0);
	assert_int_equal(all.nr, 6);
	assert_int_equal(step_log_next(&log, &b, NULL), 1);
	assert_true(!b.whole && b.nr_steps == 1 && b.first_step == 4);
	assert_int_equal(step_log_cut(&log, &b, 0, NULL), 0);
	assert_int_equal(step_log_next(&log, &b, NULL), 0);
	step_log_close(&log);
	unlink(test_path("log"));
}

static void a_record_of_another_run_or_a_damaged_one_is_refused(void **state)
{
	struct step_log_block b = { 0 };
	struct shoal_err err = { "" };
	struct step_log log;
	uint8_t *bytes;
	size_t len;

	(void)state;
	write_log(test_path("log"));
	assert_int_equal(step_log_open(test_path("log"), RUN + 1, 3, &log, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "another run"));
	assert_int_equal(step_log_open(test_path("log"), RUN, 2, &log, NULL), -ESTALE);
	assert_int_equal(step_log_open(test_path("none"), RUN, 3, &log, NULL), -ENOENT);
	assert_int_equal(link(test_path("log"), test_path("log2")), 0); /* another user's, maybe */
	assert_int_equal(step_log_open(test_path("log"), RUN, 3, &log, NULL), -EPERM);
	assert_int_equal(unlink(test_path("log2")), 0);
	bytes = file_read(test_path("log"), &len);
	bytes[40] ^= 1; /* the first block's kind */
	file_write(test_path("log"), bytes, len);
	assert_int_equal(step_log_open(test_path("log"), RUN, 3, &log, NULL), 0);
	assert_int_equal(step_log_next(&log, &b, &err), -EBADMSG);
	step_log_close(&log);
	free(bytes);
	unlink(test_path("log"));
}

/* ---- Processors ---- */

static void threads_that_are_not_given_are_an_accelerators_share(void **state)
{
	static const struct {
		uint64_t mine, node, node_size, here, want;
	} row[] = {
		{ 64, 64, 16, 1, 4 }, /* not bound: all see all */
		{ 4, 64, 16, 1, 4 },  /* bound to a share each: it is divided once */
		{ 1, 64, 2, 1, 1 },   /* bound to a core, though there are more */
		{ 16, 64, 2, 4, 4 },  /* several accelerators in a bound process */
		{ 64, 64, 2, 4, 8 },  { 64, 64, 1, 1, 8 }, /* at the most */
		{ 2, 64, 1, 4, 1 },                        /* at the least */
		{ 2, 2, 4, 1, 1 },    { 7, 64, 1, 1, 7 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++)
		assert_int_equal(
			run_read_threads(row[i].mine, row[i].node, row[i].node_size, row[i].here),
			row[i].want);
	assert_true(run_nr_cpus() >= 1 && run_nr_cpus() <= run_nr_cpus_node());
}

static void the_client_is_the_limit_only_if_all_that_it_can_use_was_busy(void **state)
{
	static const struct {
		const char *engine;
		uint64_t cores, threads; /* 0: as many as help */
		double used;
		const char *limit;
	} row[] = {
		{ "uring", 16, 0, 0.9, "the storage: 0.9 of 16 processors" },
		{ "uring", 16, 1, 0.9, "the storage: 0.9 of 16 processors" }, /* two ranks */
		{ "uring", 16, 1, 1.7, "the clients' processors: 1.7 of 16 processors" },
		{ "threads", 16, 1, 1.7, "the storage" },
		{ "uring", 2, 4, 1.7, "the clients' processors: 1.7 of 2 processors" },
	};
	struct workload w = { .reader.batch = 10,
			      .train.computation_time = { .kind = WORKLOAD_TIME_FIXED, .a = 1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(row); i++) {
		struct run_result_phase p = { .samples = 100,
					      .block_seconds = 10,
					      .cpu_us = row[i].used * 1e5,
					      .time = { .data = 5 } };
		struct run_result r = { .workload = &w,
					.nr_ranks = 2,
					.nr_accelerators = 2,
					.cores = row[i].cores,
					.threads = row[i].threads,
					.phases = &p,
					.nr_phases = 1 };
		char words[256];

		snprintf(r.engine, sizeof(r.engine), "%s", row[i].engine);
		assert_true(run_result_limit(&r, words, sizeof(words)));
		if (!strstr(words, row[i].limit))
			fail_msg("'%s' is not in '%s'", row[i].limit, words);
	}
}

/* ---- Locks ---- */

static void a_lock_that_another_user_has_left_can_be_taken(void **state)
{
	bool root = geteuid() == 0;
	struct shoal_err err = { "" };
	int lock = -1, other = -1;

	(void)state;
	file_write(test_path("lock"), "", 0);
	assert_int_equal(chmod(test_path("lock"), 0444), 0);
	assert_int_equal(chmod(test_dir(), 0755), 0);
	if (root && seteuid(65534) < 0)
		skip();
	assert_int_equal(file_lock_take(test_path("lock"), &lock, &err), 0);
	assert_int_equal(file_lock_take(test_path("lock"), &other, &err), -EBUSY);
	close(lock);
	assert_int_equal(file_lock_take(test_path("lock"), &lock, &err), 0);
	if (root) /* who may not make one is told so */
		assert_int_equal(file_lock_take(test_path("none"), &other, &err), -EACCES);
	if (root)
		assert_int_equal(seteuid(0), 0);
	file_lock_drop(test_path("lock"), lock);
	assert_int_equal(access(test_path("lock"), F_OK), -1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_leave_out_the_steps_outside_the_window),
		cmocka_unit_test(a_block_without_time_has_no_figures),
		cmocka_unit_test(the_throughput_of_an_evaluation_is_of_all_its_time),
		cmocka_unit_test(samples_that_were_not_read_are_in_no_rate),
		cmocka_unit_test(blocks_of_an_epoch_count_by_their_steps),
		cmocka_unit_test(the_deviation_is_that_of_the_population),
		cmocka_unit_test(a_result_is_summed_up_over_epochs),
		cmocka_unit_test(a_utilisation_is_known_when_a_step_of_training_counts),
		cmocka_unit_test(a_run_that_was_not_read_once_is_no_success),
		cmocka_unit_test(workers_take_samples_as_they_are_free),
		cmocka_unit_test(many_workers_are_taken_in_turn_of_the_earliest),
		cmocka_unit_test(each_accelerator_loads_until_its_own_samples_are_there),
		cmocka_unit_test(a_batch_that_was_there_before_takes_only_the_handing_out),
		cmocka_unit_test(preprocessing_may_end_after_the_batch_was_handed_out),
		cmocka_unit_test(a_sleep_ends_in_time_or_when_it_is_stopped),
		cmocka_unit_test(what_is_recorded_is_read_again),
		cmocka_unit_test(a_record_cut_off_anywhere_keeps_its_whole_steps),
		cmocka_unit_test(a_record_that_was_cut_short_is_told),
		cmocka_unit_test(steps_are_excluded_at_the_end_of_an_epoch_only),
		cmocka_unit_test(a_block_that_is_cut_goes_on_behind_the_cut),
		cmocka_unit_test(a_record_of_another_run_or_a_damaged_one_is_refused),
		cmocka_unit_test(threads_that_are_not_given_are_an_accelerators_share),
		cmocka_unit_test(the_client_is_the_limit_only_if_all_that_it_can_use_was_busy),
		cmocka_unit_test(a_lock_that_another_user_has_left_can_be_taken),
	};

	return cmocka_run_group_tests(tests, test_dir_make, test_dir_remove);
}
