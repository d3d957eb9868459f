/*
 * Goal: what ranks hand in while a command works adds up, whichever threads do it and however long
 * it takes; what does not fit is counted; and the page, its data and the metrics are whole.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "help.h"
#include "report/live.h"

#define SECOND UINT64_C(1000000000)

enum { RANKS = 4, RECORDS = 200 };

static bool no_memory;

void *__real_calloc(size_t nr, size_t size);
void *__wrap_calloc(size_t nr, size_t size);

void *__wrap_calloc(size_t nr, size_t size)
{
	return no_memory ? NULL : __real_calloc(nr, size);
}

static struct live *new_live(void)
{
	struct live_head head = { .command = "run",
				  .name = "a \"n\u00e4me\"\n\xff</script>",
				  .nr_ranks = RANKS,
				  .nr_here = 1,
				  .au_bar = 90,
				  .total = RANKS };
	struct shoal_err err = { "" };
	struct live *l = NULL;

	assert_int_equal(live_new(&head, &l, &err), 0);
	return l;
}

static struct series_record second(uint64_t at)
{
	struct series_record r = { .kind = SERIES_SECOND,
				   .epoch = 1,
				   .start = at * SECOND,
				   .duration = SECOND,
				   .nr_steps = 2,
				   .samples = 10,
				   .bytes = 1000,
				   .load = SECOND / 4,
				   .compute = SECOND / 2,
				   .slow = 5000000 };

	r.count[10] = 10;
	return r;
}

/* The text, which ends with a NUL; release the buffer. */
static const char *text_of(struct live *l, void (*put)(struct live *, struct buf *), struct buf *b)
{
	*b = (struct buf){ .max = 8 << 20 };
	put(l, b);
	buf_u8(b, 0);
	assert_int_equal(b->rc, 0);
	return (const char *)b->data;
}

static void check_metric(struct live *l, const char *line)
{
	struct buf b;

	if (!strstr(text_of(l, live_put_metrics, &b), line))
		fail_msg("'%s' is missing in:\n%s", line, (const char *)b.data);
	buf_release(&b);
}

static unsigned long value_of(const char *text, const char *name)
{
	const char *found = strstr(text, name);

	assert_non_null(found);
	return strtoul(found + strlen(name), NULL, 10);
}

static struct live *shared;
static int done;

static void *hand_in(void *rank)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		struct series_record r = second(i);

		live_add(shared, (unsigned)(uintptr_t)rank, &r);
		live_show(shared, &(struct live_now){ .what = "samples", .done = i, .share = 0.5 });
		usleep(100);
	}
	__atomic_add_fetch(&done, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void ranks_add_up_while_another_thread_reads(void **state)
{
	pthread_t thread[RANKS];
	unsigned long lost;
	const char *text;
	struct buf b;

	(void)state;
	shared = new_live();
	for (uintptr_t i = 0; i < RANKS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hand_in, (void *)i), 0);
	while (__atomic_load_n(&done, __ATOMIC_RELAXED) < RANKS) {
		text_of(shared, live_put_data, &b);
		buf_release(&b);
	}
	for (unsigned i = 0; i < RANKS; i++)
		pthread_join(thread[i], NULL);
	/* On a busy machine the thread that reads may come too late for some: those are counted. */
	text = text_of(shared, live_put_metrics, &b);
	lost = value_of(text, "\nshoal_dropped_records_total ");
	assert_int_equal(value_of(text, "\nshoal_samples_total ") + 10 * lost, 8000);
	assert_int_equal(value_of(text, "\nshoal_sample_latency_seconds_bucket{le=\"1.6e-05\"} "),
			 0);
	assert_int_equal(value_of(text, "\nshoal_sample_latency_seconds_bucket{le=\"3.2e-05\"} "),
			 8000 - 10 * lost);
	buf_release(&b);
	check_metric(shared, ",name=\"a \\\"n\u00e4me\\\"?\?</script>\"} 1\n");
	check_metric(shared, "\n# EOF\n");
	live_free(shared);
}

static void what_nobody_takes_in_is_dropped_and_counted(void **state)
{
	struct live *l = new_live();
	struct series_record r = second(0);

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		live_add(l, 0, &r);
	check_metric(l, "\nshoal_dropped_records_total 36\n");
	check_metric(l, "\nshoal_samples_total 640\n");
	live_add(l, RANKS, &r); /* of a rank that there is not */
	live_add(l, 0, &r);
	check_metric(l, "\nshoal_samples_total 650\n");
	live_free(l);
}

static void what_it_is_about_to_do_and_the_epochs_that_are_over_are_on_the_page(void **state)
{
	struct live_head head = { .command = "run",
				  .name = "x",
				  .nr_ranks = RANKS,
				  .nr_here = 1,
				  .begin = "{\"data\": \"there\"}",
				  .config = "train:\n  epochs: 2\n" };
	struct live *l = NULL;
	struct shoal_err err = { "" };
	struct series_record r = second(0);
	const char *text;
	struct buf b;

	(void)state;
	assert_int_equal(live_new(&head, &l, &err), 0);
	for (unsigned rank = 0; rank < RANKS; rank++)
		live_add(l, rank, &r);
	live_add_phase(l, "{\"epoch\": 1}");
	live_tick(l);
	live_add_phase(l, "{\"epoch\": 2}");
	live_add_phase(l, "{\"epoch\": 3}");
	text = text_of(l, live_put_data, &b);
	assert_non_null(strstr(text, "\"begin_text\": \"{\\\"data\\\": \\\"there\\\"}\""));
	assert_non_null(strstr(text, "\"effective_text\": \"train:"));
	assert_non_null(strstr(text, "[{\\\"epoch\\\": 1},{\\\"epoch\\\": 2},{\\\"epoch\\\": 3}]"));
	/* Two steps of 375 ms, a third of it waiting, on each rank. */
	assert_non_null(
		strstr(text, "\"steps\": {\"ranks\": 4, \"epochs\": [{\"epoch\": 1, \"width\": 1, "
			     "\"step_seconds\": [0.375, 0.375], \"wait_mean_ms\": [125.0, 125.0]"));
	buf_release(&b);
	live_free(l);
}

static void more_results_of_epochs_than_there_is_room_for_are_left_out_whole(void **state)
{
	struct live *l = new_live();
	static char phase[1000];
	const char *text, *end;
	struct buf b;

	(void)state;
	memset(phase, ' ', sizeof(phase) - 1);
	memcpy(phase, "{}", 2);
	for (unsigned i = 0; i < 2000; i++) {
		live_add_phase(l, phase);
		if (i % 100 == 0)
			live_tick(l);
	}
	text = strstr(text_of(l, live_put_data, &b), "\"phases_text\": \"[{}");
	assert_non_null(text);
	end = strchr(text, ']');
	assert_in_range(end - text, 900000, 1100000);
	assert_true(end[-1] == ' ' && end[1] == '"');
	buf_release(&b);
	live_free(l);
}

static void a_wait_that_goes_on_is_told(void **state)
{
	struct live *l = new_live();
	struct live_now now = { .what = "samples", .idle = 40 };
	const char *found;
	struct buf b;

	(void)state;
	live_show(l, &now);
	usleep(20000);
	found = strstr(text_of(l, live_put_metrics, &b), "\nshoal_idle_seconds ");
	assert_non_null(found);
	assert_true(strtod(found + 20, NULL) >= 40.02 && strtod(found + 20, NULL) < 400);
	buf_release(&b);
	live_free(l);
}

/* A day in 600 intervals: rates stay what they are, and the page small. */
static void a_long_run_has_long_intervals(void **state)
{
	struct live *l = new_live();
	struct buf b;
	const char *text;

	(void)state;
	for (unsigned at = 0; at < 86400; at += 16)
		for (unsigned rank = 0; rank < RANKS; rank++) {
			struct series_record r = second(at);

			r.duration = 16 * SECOND;
			r.samples = rank == 2 ? 80 : 160;
			live_add(l, rank, &r);
			live_tick(l);
		}
	text = text_of(l, live_put_data, &b);
	assert_non_null(strstr(text, "\"width_seconds\": 256"));
	assert_non_null(strstr(text, "\"samples_per_second\": [35.0, 35.0, "));
	assert_non_null(strstr(text, "\"slowest_rank\": [2.0, 2.0, "));
	assert_non_null(strstr(text, "\"rank_low\": [5.0, 5.0, "));
	buf_release(&b);
	text = text_of(l, live_put_page, &b);
	assert_true(b.len < 1500000);
	assert_non_null(strstr(text, "connect-src 'self'"));
	assert_null(strstr(text, "name\\\"\\n</script>"));
	buf_release(&b);
	live_free(l);
}

/* The values of a member that is an array, up to its end. */
static const char *array_of(const char *text, const char *name, const char **ret_end)
{
	const char *found = strstr(text, name);

	assert_non_null(found);
	*ret_end = strchr(found, ']');
	assert_non_null(*ret_end);
	return found + strlen(name);
}

static void ranks_are_compared_also_in_intervals_longer_than_records(void **state)
{
	static const char *const names[] = { "\"rank_low\": [", "\"rank_high\": [",
					     "\"slowest_rank\": [", "\"last_rank\": [" };
	struct live *l = new_live();
	const char *text, *at, *end;
	struct buf b;

	(void)state;
	for (unsigned i = 0; i < 5000; i++) {
		for (unsigned rank = 0; rank < RANKS; rank++) {
			struct series_record r = second(i);

			r.samples = rank == 2 ? 5 : 10;
			r.load += rank == 2 ? SECOND / 8 : 0;
			live_add(l, rank, &r);
		}
		live_tick(l);
	}
	text = text_of(l, live_put_data, &b);
	assert_non_null(strstr(text, "\"width_seconds\": 16"));
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (at = array_of(text, names[i], &end); at < end; at++)
			assert_true(*at != 'n'); /* null */
	array_of(text, "\"rank_low\": [", &end);
	assert_memory_equal(end - 5, ", 5.0", 5);
	array_of(text, "\"slowest_rank\": [", &end);
	assert_memory_equal(end - 5, ", 2.0", 5);
	buf_release(&b);
	live_free(l);
}

static void without_memory_for_an_epoch_its_steps_come_later(void **state)
{
	struct live *l = new_live();
	struct series_record r = second(0);
	struct buf b;

	(void)state;
	live_add(l, 0, &r);
	no_memory = true;
	live_tick(l);
	no_memory = false;
	assert_non_null(strstr(text_of(l, live_put_data, &b), "\"epochs\": [], "));
	buf_release(&b);
	live_add(l, 0, &r);
	assert_non_null(strstr(text_of(l, live_put_data, &b), "\"epochs\": [{\"epoch\": 1, "));
	buf_release(&b);
	live_free(l);
}

/* A run that was resumed began long ago, and its records count from there. */
static void times_count_from_the_beginning_of_the_run(void **state)
{
	struct live_head head = { .command = "run",
				  .name = "x",
				  .nr_ranks = RANKS,
				  .nr_here = 1,
				  .started = 1600000000 * SECOND };
	struct series_record r = second(10);
	struct shoal_err err = { "" };
	struct live *l = NULL;
	struct buf b;

	(void)state;
	assert_int_equal(live_new(&head, &l, &err), 0);
	live_add(l, 0, &r);
	assert_non_null(strstr(text_of(l, live_put_data, &b), "\"started_ms\": 1600000000000, "));
	buf_release(&b);
	live_free(l);
}

/* Of as many epochs and ranks as it shows. */
static void a_page_with_many_epochs_on_many_ranks_can_be_sent(void **state)
{
	struct live_head head = { .command = "run", .name = "x", .nr_ranks = 64, .nr_here = 1 };
	struct shoal_err err = { "" };
	struct live *l = NULL;
	const char *text;
	struct buf b;

	(void)state;
	assert_int_equal(live_new(&head, &l, &err), 0);
	for (unsigned epoch = 1; epoch <= 256; epoch++) {
		for (unsigned rank = 0; rank < head.nr_ranks; rank++) {
			struct series_record r = second(0);

			r.epoch = epoch;
			r.nr_steps = 1000;
			r.load_max = 123456789;
			live_add(l, rank, &r);
		}
		live_tick(l);
	}
	text = text_of(l, live_put_data, &b); /* of at most SERVE_BODY_MAX bytes */
	/* The first epoch had more intervals; now all have the same. */
	assert_non_null(strstr(text, "{\"epoch\": 1, \"width\": 64, "));
	assert_non_null(strstr(text, "{\"epoch\": 256, \"width\": 64, "));
	assert_non_null(strstr(text, "\"heat_ms\": [[123.0, 123.0, "));
	assert_non_null(strstr(text, "\"notes\": []"));
	buf_release(&b);
	live_free(l);
}

static void epochs_without_room_are_noted(void **state)
{
	struct live *l = new_live();
	struct buf b;

	(void)state;
	for (unsigned epoch = 1; epoch <= 260; epoch++) {
		struct series_record r = second(epoch);

		r.epoch = epoch;
		live_add(l, 0, &r);
		live_tick(l);
	}
	assert_non_null(strstr(text_of(l, live_put_data, &b),
			       "\"notes\": [\"steps of the last 4 epochs are left out"));
	buf_release(&b);
	live_free(l);
}

/* It goes on for seconds, and each rank but one reports it in each of them. */
static void a_stall_has_each_rank_once(void **state)
{
	struct live *l = new_live();
	struct buf b;

	(void)state;
	for (unsigned at = 0; at < 4; at++)
		for (unsigned rank = 0; rank < RANKS; rank++) {
			struct series_record r = second(10 + at);

			r.slow = rank == 2 ? 0 : 5 * SECOND + at;
			r.slow_start = 9 * SECOND;
			live_add(l, rank, &r);
			live_tick(l);
		}
	assert_non_null(
		strstr(text_of(l, live_put_data, &b), "\"rank\": 0, \"ranks\": 3, \"wait_ms\""));
	buf_release(&b);
	live_free(l);
}

static void what_is_not_known_is_left_out(void **state)
{
	struct live *l = new_live();
	struct buf b;
	const char *text;

	(void)state;
	live_show(l, &(struct live_now){ .nr_epochs = 2,
					 .au = (double)NAN,
					 .share = (double)NAN,
					 .seconds_left = (double)INFINITY });
	text = text_of(l, live_put_metrics, &b);
	assert_null(strstr(text, " nan\n"));
	assert_null(strstr(text, " inf\n"));
	buf_release(&b);
	text = text_of(l, live_put_data, &b);
	assert_non_null(strstr(text, "\"au_percentage\": null"));
	assert_null(strstr(text, "nan"));
	buf_release(&b);
	live_free(l);
	live_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_add_up_while_another_thread_reads),
		cmocka_unit_test(what_nobody_takes_in_is_dropped_and_counted),
		cmocka_unit_test(
			what_it_is_about_to_do_and_the_epochs_that_are_over_are_on_the_page),
		cmocka_unit_test(more_results_of_epochs_than_there_is_room_for_are_left_out_whole),
		cmocka_unit_test(a_wait_that_goes_on_is_told),
		cmocka_unit_test(a_long_run_has_long_intervals),
		cmocka_unit_test(ranks_are_compared_also_in_intervals_longer_than_records),
		cmocka_unit_test(times_count_from_the_beginning_of_the_run),
		cmocka_unit_test(a_page_with_many_epochs_on_many_ranks_can_be_sent),
		cmocka_unit_test(epochs_without_room_are_noted),
		cmocka_unit_test(a_stall_has_each_rank_once),
		cmocka_unit_test(what_is_not_known_is_left_out),
		cmocka_unit_test(without_memory_for_an_epoch_its_steps_come_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
