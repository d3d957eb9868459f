#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct stats_spread stats_spread(double *values, size_t nr)
{
	qsort(values, nr, sizeof(*values), compare_values);
	return (struct stats_spread){ (values[(nr - 1) / 2] + values[nr / 2]) / 2, values[0],
				      values[nr - 1] };
}

double stats_mean(const double *values, size_t nr)
{
	double sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += values[i];
	return nr > 0 ? sum / (double)nr : (double)NAN;
}

double stats_variance(const double *values, size_t nr)
{
	double mean = stats_mean(values, nr), sum = 0;

	for (size_t i = 0; i < nr; i++)
		sum += (values[i] - mean) * (values[i] - mean);
	return nr > 1 ? sum / (double)(nr - 1) : 0;
}

/* ---- Student's t ---- */

/* lgamma() sets a global; this does not. */
static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

/* The continued fraction of the incomplete beta function, by Lentz's method. */
static double beta_fraction(double a, double b, double x)
{
	const double tiny = 1e-300;
	double c = 1, d = 1 - (a + b) * x / (a + 1), f;

	d = 1 / (fabs(d) < tiny ? tiny : d);
	f = d;
	for (int i = 1; i < 500; i++) {
		double m = i, even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
		double step;

		d = 1 + even * d;
		c = 1 + even / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		f *= c * d;
		d = 1 + odd * d;
		c = 1 + odd / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		step = c * d;
		f *= step;
		if (fabs(step - 1) < 1e-14)
			break;
	}
	return f;
}

/* The regularised incomplete beta function, for 0 <= x <= 1. */
static double beta_share(double a, double b, double x)
{
	double front;

	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
	if (x < (a + 1) / (a + b + 2))
		return front * beta_fraction(a, b, x) / a;
	return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double stats_student(double t, double df)
{
	return beta_share(df / 2, 0.5, df / (df + t * t));
}

double stats_welch(const double *a, size_t nr_a, const double *b, size_t nr_b)
{
	double distance = stats_mean(a, nr_a) - stats_mean(b, nr_b);
	double va, vb, df;

	if (nr_a < 2 || nr_b < 2 || !isfinite(distance))
		return (double)NAN;
	va = stats_variance(a, nr_a) / (double)nr_a;
	vb = stats_variance(b, nr_b) / (double)nr_b;
	if (va + vb <= 0)
		return fabs(distance) > 0 ? 0 : 1;
	df = (va + vb) * (va + vb) / (va * va / (double)(nr_a - 1) + vb * vb / (double)(nr_b - 1));
	/* Variances so small that their squares vanish: as many as the smaller group has. */
	if (!isfinite(df))
		df = (double)u64_min(nr_a, nr_b) - 1;
	return stats_student(distance / sqrt(va + vb), df);
}

/* ---- Several tests ---- */

/* How many tests come before test @i, from the smallest p-value on. */
static size_t test_rank(const double *p, size_t nr, size_t i)
{
	size_t before = 0;

	for (size_t k = 0; k < nr; k++)
		before += p[k] < p[i] || (k < i && p[k] <= p[i]);
	return before;
}

void stats_holm(const double *p, size_t nr, double *ret_p)
{
	size_t tests = 0;

	for (size_t i = 0; i < nr; i++)
		tests += isnan(p[i]) ? 0 : 1;
	for (size_t i = 0; i < nr; i++) {
		ret_p[i] = p[i];
		for (size_t k = 0; k < nr; k++)
			if (p[k] <= p[i]) /* never with a NAN */
				ret_p[i] = fmax(ret_p[i],
						p[k] * (double)(tests - test_rank(p, nr, k)));
		if (ret_p[i] > 1)
			ret_p[i] = 1;
	}
}
