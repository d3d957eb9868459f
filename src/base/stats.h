/* stats.h - spread of a few measurements, and whether two of them differ. Pure arithmetic. */
#ifndef SHOAL_BASE_STATS_H
#define SHOAL_BASE_STATS_H

#include "base/base.h"

struct stats_spread {
	double median, lowest, highest;
};

/* Sorts @values, of which there is at least one. */
struct stats_spread stats_spread(double *values, size_t nr);

double stats_mean(const double *values, size_t nr);

/* The variance of the population that the values are a sample of (divided by nr - 1); 0 for one. */
double stats_variance(const double *values, size_t nr);

/*
 * Welch's t-test, for two groups of measurements whose variances may differ: the probability of
 * means at least as far apart as these if both groups measured the same thing. NAN if a group has
 * fewer than two values, or any is not finite. If neither group varies at all, 1 for equal means
 * and 0 for others.
 */
double stats_welch(const double *a, size_t nr_a, const double *b, size_t nr_b);

/* The probability that Student's t with @df degrees of freedom is at least |@t| from 0. */
double stats_student(double t, double df);

/*
 * Holm's correction for several tests: for each p-value of @p the smallest level at which it is
 * significant among all @nr, a handful. NAN stays, and does not count as a test.
 */
void stats_holm(const double *p, size_t nr, double *ret_p);

#endif
