/*
 * Goal: a difference beyond the spread is found in the right direction, chance is not, and what
 * cannot be tested is never called the same.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "help.h"
#include "report/compare.h"

static struct figures *new_figures(enum figure which, size_t nr, ...)
{
	struct figures *f = calloc(1, sizeof(*f));
	va_list values;

	assert_non_null(f);
	va_start(values, nr);
	for (size_t i = 0; i < nr; i++)
		f->of[which].value[f->of[which].nr++] = va_arg(values, double);
	va_end(values);
	return f;
}

static enum compare_verdict verdict(struct figures *a, struct figures *b, double least)
{
	struct compare_result r;

	compare_figures(a, b, (struct compare_rules){ 0.05, least }, &r);
	free(a);
	free(b);
	assert_int_equal(r.nr_rows, 1);
	assert_int_equal(r.nr_tested, r.row[0].verdict <= COMPARE_WORSE);
	assert_int_equal(r.nr_worse, r.row[0].verdict == COMPARE_WORSE);
	return r.row[0].verdict;
}

#define RATES(...) new_figures(FIGURE_SAMPLES, sizeof((double[]){ __VA_ARGS__ }) / 8, __VA_ARGS__)
#define P99(...)   new_figures(FIGURE_P99, sizeof((double[]){ __VA_ARGS__ }) / 8, __VA_ARGS__)

static void a_difference_beyond_the_spread_counts_in_its_direction(void **state)
{
	(void)state;
	assert_int_equal(verdict(RATES(100.0, 101.0, 99.0), RATES(90.0, 91.0, 89.0), 1),
			 COMPARE_WORSE);
	assert_int_equal(verdict(RATES(90.0, 91.0, 89.0), RATES(100.0, 101.0, 99.0), 1),
			 COMPARE_BETTER);
	assert_int_equal(verdict(P99(90.0, 91.0, 89.0), P99(100.0, 101.0, 99.0), 1), COMPARE_WORSE);
	assert_int_equal(verdict(P99(100.0, 101.0, 99.0), P99(90.0, 91.0, 89.0), 1),
			 COMPARE_BETTER);
}

static void a_difference_within_the_spread_or_too_small_does_not_count(void **state)
{
	(void)state;
	assert_int_equal(verdict(RATES(100.0, 120.0, 80.0), RATES(90.0, 110.0, 75.0), 1),
			 COMPARE_SAME);
	assert_int_equal(verdict(RATES(100.0, 100.01, 99.99), RATES(99.5, 99.51, 99.49), 1),
			 COMPARE_SAME);
	assert_int_equal(verdict(RATES(100.0, 100.01, 99.99), RATES(99.5, 99.51, 99.49), 0),
			 COMPARE_WORSE);
	assert_int_equal(verdict(RATES(5.0, 5.0), RATES(5.0, 5.0), 0), COMPARE_SAME);
}

static void what_cannot_be_tested_is_not_the_same(void **state)
{
	struct compare_result r;
	struct figures *none = calloc(1, sizeof(*none)), *some = RATES(1.0, 2.0);

	(void)state;
	assert_int_equal(verdict(RATES(100.0), RATES(50.0, 51.0, 49.0), 1), COMPARE_TOO_FEW);
	assert_int_equal(verdict(RATES(100.0, 101.0), RATES(50.0), 1), COMPARE_TOO_FEW);
	assert_int_equal(verdict(new_figures(FIGURE_CACHED, 2, 1.0, 2.0),
				 new_figures(FIGURE_CACHED, 2, 50.0, 51.0), 1),
			 COMPARE_NOT_TESTED);
	assert_non_null(none);
	compare_figures(some, none, (struct compare_rules){ 0.05, 1 }, &r);
	assert_int_equal(r.row[0].verdict, COMPARE_NOT_TESTED);
	assert_true(isnan(r.row[0].change) && isnan(r.row[0].p) && isnan(r.row[0].mean[1]));
	compare_figures(none, none, (struct compare_rules){ 0.05, 1 }, &r);
	assert_int_equal(r.nr_rows, 0);
	free(none);
	free(some);
}

static void note(void *self, const char *key, const char *was, const char *is)
{
	char *to = self;
	size_t len = strlen(to);

	snprintf(to + len, 500 - len, "%s:%s:%s ", key, was ? was : "-", is ? is : "-");
}

static void settings_that_differ_or_are_missing_are_listed(void **state)
{
	static char same[] = "same", engine[] = "engine", one[] = "1", two[] = "2", old[] = "old",
		    new[] = "new";
	struct figures_fact first[] = { { same, one }, { engine, one }, { old, two } };
	struct figures_fact second[] = { { engine, two }, { same, one }, { new, one } };
	struct figures *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	char all[500] = "";

	(void)state;
	assert_true(a && b);
	a->facts = first;
	a->nr_facts = 3;
	b->facts = second;
	b->nr_facts = 3;
	compare_settings(a, b, note, all);
	assert_string_equal(all, "engine:1:2 old:2:- new:-:1 ");
	free(a);
	free(b);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_difference_beyond_the_spread_counts_in_its_direction),
		cmocka_unit_test(a_difference_within_the_spread_or_too_small_does_not_count),
		cmocka_unit_test(what_cannot_be_tested_is_not_the_same),
		cmocka_unit_test(settings_that_differ_or_are_missing_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
