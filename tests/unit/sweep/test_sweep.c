/*
 * Goal: a sweep measures every point as often as the others, in an order that the seed gives; the
 * knee of a known curve is found, and none where there is none; what a record says survives, and a
 * record cut anywhere is no record.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "help.h"
#include "sweep/folder.h"
#include "sweep/result.h"

/* ---- Parameters ---- */

static void values_are_lists_and_ranges(void **state)
{
	static const struct {
		const char *text, *values;
		bool numeric;
	} table[] = {
		{ "a=1", "1", true },
		{ "a=4,1,2", "1 2 4", true },
		{ "a=1..64", "1 2 4 8 16 32 64", true },
		{ "a=3..20", "3 6 12", true },
		{ "a=4..20+4", "4 8 12 16 20", true },
		{ "a=4..21+4", "4 8 12 16 20", true },
		{ "a=0..2+1", "0 1 2", true },
		{ "a=5..5", "5", true },
		{ "a=1,8..32,3", "1 3 8 16 32", true },
		{ "a=64K,4K,1M", "4K 64K 1M", true },
		{ "a=0.5,0.05,2", "0.05 0.5 2", true },
		{ "a=1.5,1.25,1.5K", "1.25 1.5 1.5K", true },
		{ "a=1.2.3,4", "1.2.3 4", false },
		{ "a=threads,uring", "threads uring", false },
		{ "a=18446744073709551615", "18446744073709551615", true },
		{ "a=9223372036854775808..18446744073709551615", "9223372036854775808", true },
		{ "a=1..18446744073709551615+18446744073709551615", "1", true },
		{ "reader.batch_size=1,x=y", "1 x=y", false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct sweep_parameter p;
		struct shoal_err err = { "" };
		char all[1024] = "";

		if (sweep_parse_parameter(table[i].text, &p, &err) != 0)
			fail_msg("%s: %s", table[i].text, err.msg);
		for (size_t k = 0; k < p.nr; k++) {
			size_t len = strlen(all);

			snprintf(all + len, sizeof(all) - len, "%s%s", k ? " " : "", p.value[k]);
		}
		assert_string_equal(all, table[i].values);
		assert_int_equal(p.numeric, table[i].numeric);
	}
}

static void what_is_no_list_of_values_is_refused(void **state)
{
	static const char *const table[] = {
		"",          "a",          "=1",         "a=",     "a=1,",
		"a=,1",      "a=1,1",      "a=8..4",     "a=0..4", "a=1..",
		"a=..4",     "a=1..4+0",   "a=1..4+",    "a=x..4", "a=1..1000+1",
		"a=1K,1024", "a=0.5,0.50", "a=1,2,1..4", "a=\1",   "a\n=1",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct sweep_parameter p;
		struct shoal_err err = { "" };

		if (sweep_parse_parameter(table[i], &p, &err) != -EINVAL || !err.msg[0])
			fail_msg("'%s' was not refused", table[i]);
	}
}

/* ---- Jobs ---- */

static void make_plan(struct sweep_plan *plan, uint64_t seed)
{
	*plan = (struct sweep_plan){
		.nr_parameters = 2, .repeats = 3, .ceilings = true, .seed = seed
	};
	assert_int_equal(sweep_parse_parameter("a=1..8", &plan->parameter[0], NULL), 0);
	assert_int_equal(sweep_parse_parameter("b=x,y,z", &plan->parameter[1], NULL), 0);
}

static void every_round_has_every_point_once_in_an_order_of_the_seed(void **state)
{
	static struct sweep_plan plan, other;
	struct sweep_job jobs[72] = { { 0 } }, again[72] = { { 0 } };
	bool differs = false, sorted = true;

	(void)state;
	make_plan(&plan, 7);
	make_plan(&other, 8);
	assert_int_equal(sweep_nr_jobs(&plan), 72);
	sweep_jobs(&plan, jobs);
	sweep_jobs(&plan, again);
	for (size_t i = 0; i < 72; i++)
		assert_int_equal(jobs[i].number, again[i].number);
	sweep_jobs(&other, again);
	for (size_t round = 0; round < 6; round++) {
		unsigned seen = 0;

		for (size_t i = 12 * round; i < 12 * round + 12; i++) {
			assert_int_equal(jobs[i].repeat, round);
			assert_int_equal(jobs[i].ceiling, round >= 3);
			assert_int_equal(jobs[i].number, 12 * round + jobs[i].point);
			seen |= 1u << jobs[i].point;
			differs |= jobs[i].point != again[i].point;
			sorted &= i == 0 || jobs[i].point > jobs[i - 1].point;
		}
		assert_int_equal(seen, 0xfff);
	}
	assert_true(differs);
	assert_false(sorted);
	assert_string_equal(sweep_value(&plan, 5, 0), "2");
	assert_string_equal(sweep_value(&plan, 5, 1), "y");
}

static void a_ceiling_is_measured_as_often_as_its_point_up_to_three_times(void **state)
{
	static const struct {
		unsigned repeats, ceilings;
	} table[] = { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 3 }, { 1000, 3 } };
	static struct sweep_plan plan;

	(void)state;
	make_plan(&plan, 1);
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		plan.repeats = table[i].repeats;
		assert_int_equal(sweep_nr_ceilings(&plan), table[i].ceilings);
	}
	plan.ceilings = false;
	assert_int_equal(sweep_nr_ceilings(&plan), 0);
}

/* ---- The knee ---- */

static void the_knee_of_a_known_curve_is_found(void **state)
{
	static const double unknown = (double)NAN;
	static const struct {
		const char *what;
		double rate[7], latency[7];
		size_t nr;
		enum knee_kind kind;
		size_t at;
	} table[] = {
		{ "a device of 8 channels",
		  { 100, 200, 400, 800, 800, 800, 800 },
		  { 10, 10, 10, 10, 20, 40, 80 },
		  7,
		  KNEE_FOUND,
		  3 },
		{ "just within", { 100, 95, 100 }, { 1, 1, 1 }, 3, KNEE_FOUND, 0 },
		{ "within 5 %", { 90, 95, 100 }, { 1, 1, 1 }, 3, KNEE_FOUND, 1 },
		{ "just outside", { 90, 94.9, 100 }, { 1, 1, 1 }, 3, KNEE_STILL_RISING, 2 },
		{ "it declines", { 50, 100, 80, 60 }, { 1, 1, 2, 3 }, 4, KNEE_FOUND, 1 },
		{ "flat", { 100, 100, 100 }, { 1, 2, 3 }, 3, KNEE_FOUND, 0 },
		{ "still rising", { 100, 200, 400 }, { 1, 1, 1 }, 3, KNEE_STILL_RISING, 2 },
		{ "latency first", { 100, 190, 240, 300 }, { 1, 2, 5, 9 }, 4, KNEE_BY_LATENCY, 1 },
		{ "no latency",
		  { 100, 200, 201 },
		  { unknown, unknown, unknown },
		  3,
		  KNEE_FOUND,
		  1 },
		{ "a gap", { 100, unknown, 200, 201 }, { 1, unknown, 1, 1 }, 4, KNEE_FOUND, 2 },
		{ "the end is missing",
		  { 100, 200, 201, unknown },
		  { 1, 1, 1, unknown },
		  4,
		  KNEE_FOUND,
		  1 },
		{ "rising to a gap",
		  { 100, 200, unknown },
		  { 1, 1, unknown },
		  3,
		  KNEE_STILL_RISING,
		  1 },
		{ "one point", { 100, unknown }, { 1, unknown }, 2, KNEE_TOO_FEW, 0 },
		{ "nothing", { 0 }, { 0 }, 0, KNEE_TOO_FEW, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct knee_point points[7];
		struct knee knee;

		for (size_t k = 0; k < table[i].nr; k++)
			points[k] = (struct knee_point){ (double)(1 << k), table[i].rate[k],
							 table[i].latency[k], false };
		knee = knee_find(points, table[i].nr, (struct knee_rules){ 0.05, 4 });
		if (knee.kind != table[i].kind || knee.at != table[i].at)
			fail_msg("%s: kind %d at %zu", table[i].what, (int)knee.kind, knee.at);
	}
}

static void where_the_client_is_the_limit_there_is_no_knee(void **state)
{
	static const struct {
		const char *what;
		double rate[4], latency[4];
		bool client[4];
		enum knee_kind kind;
		size_t at;
	} table[] = {
		{ "nowhere", { 100, 200, 201, 202 }, { 1, 1, 1, 1 }, { 0 }, KNEE_FOUND, 1 },
		{ "everywhere",
		  { 100, 101, 102, 100 },
		  { 1, 1, 1, 1 },
		  { 1, 1, 1, 1 },
		  KNEE_CLIENT,
		  0 },
		{ "at the knee",
		  { 100, 200, 201, 202 },
		  { 1, 1, 1, 1 },
		  { 0, 1, 0, 0 },
		  KNEE_CLIENT,
		  1 },
		{ "at the best",
		  { 100, 200, 201, 202 },
		  { 1, 1, 1, 1 },
		  { 0, 0, 0, 1 },
		  KNEE_CLIENT,
		  3 },
		{ "beyond both",
		  { 100, 200, 205, 202 },
		  { 1, 1, 1, 1 },
		  { 0, 0, 0, 1 },
		  KNEE_FOUND,
		  1 },
		{ "at the last of a rise",
		  { 100, 200, 300, 400 },
		  { 1, 1, 1, 1 },
		  { 0, 0, 0, 1 },
		  KNEE_CLIENT,
		  3 },
		{ "behind the latency",
		  { 100, 190, 240, 300 },
		  { 1, 2, 5, 9 },
		  { 0, 0, 0, 1 },
		  KNEE_BY_LATENCY,
		  1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct knee_point points[4];
		struct knee knee;

		for (size_t k = 0; k < 4; k++)
			points[k] = (struct knee_point){ (double)(1 << k), table[i].rate[k],
							 table[i].latency[k], table[i].client[k] };
		knee = knee_find(points, 4, (struct knee_rules){ 0.05, 4 });
		if (knee.kind != table[i].kind || knee.at != table[i].at)
			fail_msg("%s: kind %d at %zu", table[i].what, (int)knee.kind, knee.at);
	}
}

/* ---- Records ---- */

static const char *make_folder(struct sweep_plan *plan, int *lock)
{
	static char folder[64];
	static char word[] = "read";
	char *words[] = { word };
	struct shoal_err err = { "" };

	snprintf(folder, sizeof(folder), "/tmp/test-sweep-XXXXXX");
	assert_non_null(mkdtemp(folder));
	make_plan(plan, 1);
	if (sweep_folder_open(folder, plan, words, 1, NULL, false, false, lock, &err) != 0)
		fail_msg("%s", err.msg);
	return folder;
}

static void remove_folder(const char *folder, int lock)
{
	char command[100];

	sweep_folder_close(folder, lock);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(system(command), 0);
}

static void a_record_cut_anywhere_is_no_record(void **state)
{
	static struct sweep_plan plan;
	int lock = -1;
	const char *folder = make_folder(&plan, &lock);
	struct sweep_job job = { .number = 3, .point = 3 }, other = { .number = 4, .point = 4 };
	struct sweep_record r = { .there = true, .figure = { 100.5, 2e9, 0.25, (double)NAN, 1.5 } };
	struct sweep_record back;
	char path[128], bytes[1024];
	size_t len;
	FILE *f;

	(void)state;
	assert_int_equal(sweep_record_write(folder, &plan, &job, &r, NULL), 0);
	sweep_record_read(folder, &other, &back);
	assert_false(back.there);
	sweep_record_read(folder, &job, &back);
	assert_true(back.there && !back.error[0] && isnan(back.figure[SWEEP_P99]));
	assert_true(back.figure[SWEEP_SAMPLES] == 100.5 && back.figure[SWEEP_CPU] == 1.5);
	snprintf(path, sizeof(path), "%s/jobs/00003.json", folder);
	f = fopen(path, "r");
	assert_non_null(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	assert_in_range(len, 50, sizeof(bytes) - 1);
	for (size_t n = 0; n + 1 < len; n++) { /* the last byte is a line end */
		f = fopen(path, "w");
		assert_non_null(f);
		assert_int_equal(fwrite(bytes, 1, n, f), n);
		fclose(f);
		sweep_record_read(folder, &job, &back);
		if (back.there)
			fail_msg("cut at %zu of %zu it is a record", n, len);
	}
	f = fopen(path, "w"); /* the record of another job under this name */
	assert_non_null(f);
	fputs("{\"job\": 4, \"samples_per_second\": 5}\n", f);
	fclose(f);
	sweep_record_read(folder, &job, &back);
	assert_false(back.there);
	remove_folder(folder, lock);
}

static void only_the_same_sweep_goes_on(void **state)
{
	static struct sweep_plan plan;
	int lock = -1, second = -1;
	const char *folder = make_folder(&plan, &lock);
	static char read_word[] = "read", run_word[] = "run";
	char *words[] = { read_word }, *others[] = { run_word };
	struct shoal_err err = { "" };

	(void)state;
	assert_int_equal(
		sweep_folder_open(folder, &plan, words, 1, NULL, true, false, &second, &err),
		-EBUSY);
	sweep_folder_close(folder, lock);
	assert_int_equal(sweep_folder_open(folder, &plan, words, 1, NULL, true, false, &lock, &err),
			 0);
	sweep_folder_close(folder, lock);
	lock = -1;
	assert_int_equal(
		sweep_folder_open(folder, &plan, words, 1, NULL, false, false, &lock, &err),
		-EEXIST);
	lock = -1;
	assert_int_equal(
		sweep_folder_open(folder, &plan, others, 1, NULL, true, false, &lock, &err),
		-ESTALE);
	assert_non_null(strstr(err.msg, "\"command\": [\"read\"]"));
	lock = -1;
	plan.seed = 2;
	assert_int_equal(sweep_folder_open(folder, &plan, words, 1, NULL, true, false, &lock, &err),
			 -ESTALE);
	assert_non_null(strstr(err.msg, "\"seed\": \"1\""));
	lock = -1;
	assert_int_equal(sweep_folder_open(folder, &plan, words, 1, NULL, false, true, &lock, &err),
			 1); /* there is another one */
	assert_int_equal(sweep_folder_replace(folder, &plan, words, 1, NULL, &err), 0);
	sweep_folder_close(folder, lock);
	assert_int_equal(sweep_folder_open(folder, &plan, words, 1, NULL, true, false, &lock, &err),
			 0);
	remove_folder(folder, lock);
}

/* ---- Results ---- */

static void the_output_of_a_command_gives_figures_or_the_reason(void **state)
{
	static const struct {
		const char *text, *error;
	} table[] = {
		{ "{\"samples_per_second\": 10, \"repeats\": [{\"samples_per_second\": 10}], "
		  "\"audit\": {\"exactly_once\": true}, \"cpu_us_per_sample\": 1000}",
		  "" },
		{ "{\"samples_per_second\": 10, \"interrupted\": true, \"repeats\": "
		  "[{\"samples_per_second\": 10}]}",
		  "interrupted" },
		{ "{\"samples_per_second\": 10, \"audit\": {\"exactly_once\": false}, \"repeats\": "
		  "[{\"samples_per_second\": 10}]}",
		  "exactly once" },
		{ "{\"samples_per_second\": null, \"repeats\": []}", "measured nothing" },
		{ "{\"samples_per_second\": NaN}", "cannot be read" },
		{ "{\"samples_per_second\": 10", "cannot be read" },
		{ "", "cannot be read" },
		{ "{\"files\": 3}", "cannot be read" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct sweep_record r;

		sweep_take_output(table[i].text, strlen(table[i].text), (double)NAN, &r);
		if (!strstr(r.error, table[i].error) || (!*table[i].error && r.error[0]))
			fail_msg("%s: '%s'", table[i].text, r.error);
		if (!*table[i].error)
			assert_true(fabs(r.figure[SWEEP_CPU] - 0.01) < 1e-12);
	}
}

static void a_launcher_that_started_other_ranks_has_measured_another_point(void **state)
{
	static const char read[] = "{\"samples_per_second\": 10, \"ranks\": 2, \"repeats\": "
				   "[{\"samples_per_second\": 10}]}";
	static const struct {
		double ranks;
		const char *error;
	} table[] = { { (double)NAN, "" },
		      { 2, "" },
		      { 1, "the launcher started 2 ranks" },
		      { 4, "the launcher started 2 ranks" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct sweep_record r;

		sweep_take_output(read, strlen(read), table[i].ranks, &r);
		assert_string_equal(r.error, table[i].error);
	}
}

static void rings_of_a_given_number_have_so_many_cores(void **state)
{
	static const struct {
		const char *text;
		double cores; /* 0: any number */
	} table[] = {
		{ "\"engine\": \"uring\", \"ranks\": 3, \"settings\": {\"threads\": \"1\"}", 3 },
		{ "\"engine\": \"uring\", \"ranks\": 3, \"settings\": {\"threads\": \"2\"}", 6 },
		{ "\"engine\": \"uring\", \"ranks\": 3, \"settings\": {\"threads\": \"auto\"}", 0 },
		{ "\"engine\": \"uring\", \"ranks\": 3", 0 },
		{ "\"engine\": \"threads\", \"ranks\": 3", 0 },
		{ "\"ranks\": 3", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		struct sweep_record r;
		char text[300];

		snprintf(
			text, sizeof(text),
			"{\"samples_per_second\": 10, \"repeats\": [{\"samples_per_second\": 10}], "
			"\"audit\": {\"cached_share\": 0.75}, %s}",
			table[i].text);
		sweep_take_output(text, strlen(text), (double)NAN, &r);
		assert_string_equal(r.error, "");
		assert_true(fabs(r.figure[SWEEP_CACHED] - 75) < 1e-9);
		if (table[i].cores > 0)
			assert_true(fabs(r.figure[SWEEP_CLIENT_CPU] - table[i].cores) < 1e-9);
		else
			assert_true(isnan(r.figure[SWEEP_CLIENT_CPU]));
	}
}

static void points_have_their_spread_and_what_limits_them(void **state)
{
	static struct sweep_plan plan;
	struct sweep_job jobs[72];
	static struct sweep_record records[72];
	struct sweep_result r;
	char words[300];

	(void)state;
	make_plan(&plan, 3);
	sweep_jobs(&plan, jobs);
	for (size_t i = 0; i < 72; i++) {
		double rate = 100 * fmin(4, (double)(1 << jobs[i].point % 4));

		records[i] = (struct sweep_record){ .there = true };
		/* One of the three ceilings was disturbed: it does not count. */
		records[i].figure[SWEEP_SAMPLES] = !jobs[i].ceiling      ? rate + jobs[i].repeat
						   : jobs[i].repeat == 4 ? 10
						   : jobs[i].point == 2  ? 450
									 : 1000;
		records[i].figure[SWEEP_P50] = 1;
		/* Point 6 keeps as many cores busy, of more than there are here: of another host.
		 */
		records[i].figure[SWEEP_CPU] = jobs[i].point == 7 || jobs[i].point == 6 ? 1.9 : 0.1;
		records[i].figure[SWEEP_CORES] = jobs[i].point == 6 ? 8 : 2;
		records[i].figure[SWEEP_CLIENT_CPU] = jobs[i].point == 9   ? 0.11
						      : jobs[i].point == 6 ? 8
									   : 0.12;
		records[i].figure[SWEEP_CACHED] = jobs[i].point == 1 ? 50.1 : 50;
		if (jobs[i].point == 11)
			snprintf(records[i].error, sizeof(records[i].error), "no such device");
	}
	records[0].there = false; /* not measured yet */
	assert_int_equal(
		sweep_sum_up(&plan, jobs, records, (struct knee_rules){ 0.05, 4 }, &r, NULL), 0);
	assert_int_equal(r.nr_done, 71);
	assert_int_equal(r.points[jobs[0].point].nr, jobs[0].point == 11 ? 0 : 2);
	assert_true(r.points[5].figure[SWEEP_SAMPLES].lowest >= 200);
	assert_string_equal(r.points[2].client, "own limit");
	assert_string_equal(r.points[7].client, "CPU");
	assert_null(r.points[6].client);
	assert_null(r.points[1].client);
	assert_string_equal(r.points[9].client, "CPU per rank"); /* 0.1 of 0.11, not of 0.12 */
	assert_true(sweep_from_memory(&r.points[1]) && !sweep_from_memory(&r.points[0]));
	assert_true(r.points[6].knee);
	assert_false(r.points[2].knee || r.points[3].knee || r.points[10].knee);
	sweep_knee_words(&r, 0, words, sizeof(words));
	assert_non_null(strstr(words, "not found: at a 4"));
	assert_non_null(strstr(words, "(own limit)"));
	assert_int_equal(r.points[11].nr, 0);
	assert_string_equal(r.points[11].error, "no such device");
	sweep_knee_words(&r, 2, words, sizeof(words)); /* its last point is missing */
	assert_non_null(strstr(words, "not reached"));
	sweep_result_release(&r);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_lists_and_ranges),
		cmocka_unit_test(what_is_no_list_of_values_is_refused),
		cmocka_unit_test(every_round_has_every_point_once_in_an_order_of_the_seed),
		cmocka_unit_test(a_ceiling_is_measured_as_often_as_its_point_up_to_three_times),
		cmocka_unit_test(the_knee_of_a_known_curve_is_found),
		cmocka_unit_test(where_the_client_is_the_limit_there_is_no_knee),
		cmocka_unit_test(a_launcher_that_started_other_ranks_has_measured_another_point),
		cmocka_unit_test(rings_of_a_given_number_have_so_many_cores),
		cmocka_unit_test(a_record_cut_anywhere_is_no_record),
		cmocka_unit_test(only_the_same_sweep_goes_on),
		cmocka_unit_test(the_output_of_a_command_gives_figures_or_the_reason),
		cmocka_unit_test(points_have_their_spread_and_what_limits_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
