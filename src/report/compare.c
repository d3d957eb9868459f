#include "report/compare.h"

#include <math.h>
#include <string.h>

#include "base/stats.h"

const char *compare_word(enum compare_verdict verdict)
{
	static const char *const words[] = { [COMPARE_SAME] = "same",
					     [COMPARE_BETTER] = "better",
					     [COMPARE_WORSE] = "worse",
					     [COMPARE_TOO_FEW] = "too few",
					     [COMPARE_NOT_TESTED] = "not tested" };

	return words[verdict];
}

static struct compare_row make_row(const struct figures *a, const struct figures *b,
				   enum figure which)
{
	const struct figures_values *v[2] = { &a->of[which], &b->of[which] };
	struct compare_row row = { .figure = which, .p = (double)NAN };

	for (size_t i = 0; i < 2; i++) {
		row.nr[i] = v[i]->nr;
		row.mean[i] = stats_mean(v[i]->value, v[i]->nr);
		row.deviation[i] =
			v[i]->nr > 1 ? sqrt(stats_variance(v[i]->value, v[i]->nr)) : (double)NAN;
	}
	row.change = 100 * (row.mean[1] - row.mean[0]) / fabs(row.mean[0]);
	if (!isfinite(row.change))
		row.change = (double)NAN;
	row.verdict = figure_better(which) == 0 || v[0]->nr == 0 || v[1]->nr == 0
			      ? COMPARE_NOT_TESTED
		      : v[0]->nr < 2 || v[1]->nr < 2 ? COMPARE_TOO_FEW
						     : COMPARE_SAME;
	if (row.verdict == COMPARE_SAME)
		row.p = stats_welch(v[0]->value, v[0]->nr, v[1]->value, v[1]->nr);
	return row;
}

static void judge_row(struct compare_row *row, struct compare_rules rules)
{
	bool more = row->mean[1] > row->mean[0];

	/* From a mean of 0 every change is larger than any share of it. */
	if (row->verdict != COMPARE_SAME || !(row->p < rules.level) ||
	    fabs(row->change) < rules.least)
		return;
	row->verdict = more == (figure_better(row->figure) > 0) ? COMPARE_BETTER : COMPARE_WORSE;
}

void compare_figures(const struct figures *a, const struct figures *b, struct compare_rules rules,
		     struct compare_result *ret)
{
	double p[FIGURE_NR], corrected[FIGURE_NR];

	*ret = (struct compare_result){ .nr_rows = 0 };
	for (size_t i = 0; i < FIGURE_NR; i++)
		if (a->of[i].nr > 0 || b->of[i].nr > 0)
			ret->row[ret->nr_rows++] = make_row(a, b, (enum figure)i);
	for (size_t i = 0; i < ret->nr_rows; i++)
		p[i] = ret->row[i].p;
	stats_holm(p, ret->nr_rows, corrected);
	for (size_t i = 0; i < ret->nr_rows; i++) {
		struct compare_row *row = &ret->row[i];

		row->p = corrected[i];
		judge_row(row, rules);
		ret->nr_tested += row->verdict <= COMPARE_WORSE;
		ret->nr_worse += row->verdict == COMPARE_WORSE;
		ret->nr_better += row->verdict == COMPARE_BETTER;
	}
}

void compare_settings(const struct figures *a, const struct figures *b,
		      void (*each)(void *self, const char *key, const char *was, const char *is),
		      void *self)
{
	for (size_t i = 0; i < a->nr_facts; i++) {
		const char *is = figures_fact(b, a->facts[i].key);

		if (!is || strcmp(a->facts[i].value, is) != 0)
			each(self, a->facts[i].key, a->facts[i].value, is);
	}
	for (size_t i = 0; i < b->nr_facts; i++)
		if (!figures_fact(a, b->facts[i].key))
			each(self, b->facts[i].key, NULL, b->facts[i].value);
}
