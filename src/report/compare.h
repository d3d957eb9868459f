/*
 * compare.h - whether two measurements of the same thing differ: in their settings, and in their
 * figures beyond what their epochs or repeats vary anyway. Pure arithmetic.
 *
 * Each figure that has a better direction is tested with Welch's t-test over its epochs or
 * repeats, two-sided, and the p-values are corrected for the number of tests by Holm's method. A
 * difference counts if its corrected p is below @level and the means differ by @least per cent.
 */
#ifndef SHOAL_REPORT_COMPARE_H
#define SHOAL_REPORT_COMPARE_H

#include "report/figures.h"

enum compare_verdict {
	COMPARE_SAME,    /* no difference that counts */
	COMPARE_BETTER,  /* the second is better, and it counts */
	COMPARE_WORSE,   /* the second is worse, and it counts */
	COMPARE_TOO_FEW, /* one of them has fewer than two epochs or repeats: it cannot be told */
	COMPARE_NOT_TESTED, /* neither more nor less of it is better, or only one has it */
};

struct compare_row {
	enum figure figure;
	size_t nr[2];
	double mean[2], deviation[2]; /* NAN: it has none */
	double change;                /* of the mean, in per cent of the first; NAN: unknown */
	double p;                     /* corrected; NAN: not tested */
	enum compare_verdict verdict;
};

struct compare_rules {
	double level; /* 0.05 */
	double least; /* per cent: 1 */
};

struct compare_result {
	struct compare_row row[FIGURE_NR];
	size_t nr_rows; /* figures that at least one of them has */
	size_t nr_tested, nr_worse, nr_better;
};

void compare_figures(const struct figures *a, const struct figures *b, struct compare_rules rules,
		     struct compare_result *ret);

/* The word for a verdict: "same", "better", ... */
const char *compare_word(enum compare_verdict verdict);

/* Call @each for all settings that differ; a value that one of them has not is NULL. */
void compare_settings(const struct figures *a, const struct figures *b,
		      void (*each)(void *self, const char *key, const char *was, const char *is),
		      void *self);

#endif
