/*
 * Goal: p-values are those of statistics packages, at every size of group, and what cannot be
 * judged is NAN, never a number.
 */
#include <math.h>

#include "base/stats.h"
#include "help.h"

static void assert_near(double is, double should, double within)
{
	if (!(fabs(is - should) <= within))
		fail_msg("%.17g is not %.17g", is, should);
}

/* scipy.stats.t.sf(t, df) * 2 */
static void students_t_is_that_of_the_tables(void **state)
{
	static const struct {
		double t, df, p;
	} table[] = {
		{ 0, 5, 1 },
		{ 12.706204736432095, 1, 0.05 },
		{ 4.302652729911275, 2, 0.05 },
		{ 2.2281388519649385, 10, 0.05 },
		{ -2.2281388519649385, 10, 0.05 },
		{ 3.169272667175838, 10, 0.01 },
		{ 1.9623414611334487, 1000, 0.04999972263628695 },
		{ 1, 1, 0.5 },
		{ 63.65674116287399, 1, 0.01 },
		{ 1e9, 30, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		assert_near(stats_student(table[i].t, table[i].df), table[i].p, 1e-10);
}

/* scipy.stats.ttest_ind(a, b, equal_var=False) */
static void welch_is_that_of_the_packages(void **state)
{
	static const double a[] = { 27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1,
				    21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4 };
	static const double b[] = { 27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0,
				    24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.9 };
	static const double c[] = { 100, 101, 99 }, d[] = { 80, 81 };

	(void)state;
	assert_near(stats_welch(a, 15, b, 15), 0.00756139750239832, 1e-9);
	assert_near(stats_welch(b, 15, a, 15), 0.00756139750239832, 1e-9);
	assert_near(stats_welch(c, 3, d, 2), 0.00017368428231291058, 1e-9);
}

static void too_few_or_broken_values_are_not_judged(void **state)
{
	static const double one[] = { 5 }, two[] = { 5, 6 }, broken[] = { 5, (double)NAN, 6 };
	static const double endless[] = { 5, (double)INFINITY };

	(void)state;
	assert_true(isnan(stats_welch(one, 1, two, 2)));
	assert_true(isnan(stats_welch(two, 2, one, 1)));
	assert_true(isnan(stats_welch(two, 0, two, 2)));
	assert_true(isnan(stats_welch(two, 2, broken, 3)));
	assert_true(isnan(stats_welch(endless, 2, two, 2)));
	assert_true(isnan(stats_mean(two, 0)));
}

static void groups_that_do_not_vary_are_equal_or_not(void **state)
{
	static const double a[] = { 7, 7, 7 }, b[] = { 7, 7 }, c[] = { 8, 8 }, d[] = { 8, 9 };

	(void)state;
	assert_near(stats_welch(a, 3, b, 2), 1, 0);
	assert_near(stats_welch(a, 3, c, 2), 0, 0);
	assert_true(stats_welch(a, 3, d, 2) > 0 && stats_welch(a, 3, d, 2) < 1);
}

/* statsmodels.stats.multitest.multipletests(p, method="holm") */
static void holm_makes_several_tests_stricter(void **state)
{
	static const double p[] = { 0.01, 0.04, 0.03, (double)NAN, 0.005, 0.9 };
	static const double same[] = { 0.02, 0.02, 0.02 };
	static const double should[] = { 0.04, 0.09, 0.09, (double)NAN, 0.025, 0.9 };
	double is[6];

	(void)state;
	stats_holm(p, 6, is);
	for (size_t i = 0; i < 6; i++)
		if (!isnan(should[i]))
			assert_near(is[i], should[i], 1e-15);
	assert_true(isnan(is[3]));
	stats_holm(same, 3, is);
	for (size_t i = 0; i < 3; i++)
		assert_near(is[i], 0.06, 1e-15);
	stats_holm(p, 1, is);
	assert_near(is[0], 0.01, 0);
}

static void a_spread_has_the_middle_and_the_ends(void **state)
{
	double odd[] = { 3, 1, 2 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };
	struct stats_spread s = stats_spread(odd, 3);

	(void)state;
	assert_near(s.median, 2, 0);
	assert_near(s.lowest, 1, 0);
	assert_near(s.highest, 3, 0);
	assert_near(stats_spread(even, 4).median, 2.5, 0);
	assert_near(stats_spread(one, 1).highest, 7, 0);
	assert_near(stats_variance(even, 4), 5.0 / 3, 1e-15);
	assert_near(stats_variance(one, 1), 0, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(students_t_is_that_of_the_tables),
		cmocka_unit_test(welch_is_that_of_the_packages),
		cmocka_unit_test(too_few_or_broken_values_are_not_judged),
		cmocka_unit_test(groups_that_do_not_vary_are_equal_or_not),
		cmocka_unit_test(holm_makes_several_tests_stricter),
		cmocka_unit_test(a_spread_has_the_middle_and_the_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
