#include "sweep/result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- Summing up ---- */

static int make_points(struct sweep_result *r, struct shoal_err *err)
{
	size_t points = sweep_nr_points(r->plan);
	bool whole;

	r->points = calloc(points, sizeof(*r->points));
	r->knees = calloc(r->nr_curves, sizeof(*r->knees));
	whole = r->points && r->knees;
	for (size_t i = 0; whole && i < points; i++)
		for (size_t k = 0; k < SWEEP_NR_FIGURES; k++) {
			/* a number per measurement of the sweep */
			r->points[i].all[k] = calloc(r->plan->repeats, sizeof(double));
			whole &= r->points[i].all[k] != NULL;
		}
	return whole ? 0 : err_set(err, -ENOMEM, "out of memory");
}

static void result_add_record(struct sweep_result *r, const struct sweep_job *job,
			      const struct sweep_record *record)
{
	struct sweep_point *p = &r->points[job->point];

	r->nr_done += record->there;
	if (!record->there)
		return;
	if (record->error[0]) {
		snprintf(p->error, sizeof(p->error), "%s", record->error);
		return;
	}
	if (job->ceiling) {
		p->ceilings[p->nr_ceilings++] = record->figure[SWEEP_SAMPLES];
		return;
	}
	for (size_t k = 0; k < SWEEP_NR_FIGURES; k++)
		p->all[k][p->nr] = record->figure[k];
	p->nr++;
}

/* The spread of what is known; NAN if nothing is. */
static struct stats_spread spread_of(const double *all, size_t nr)
{
	double known[SWEEP_REPEATS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < nr; i++)
		if (!isnan(all[i]))
			known[n++] = all[i];
	if (n == 0)
		return (struct stats_spread){ (double)NAN, (double)NAN, (double)NAN };
	return stats_spread(known, n);
}

static void judge_client(struct sweep_point *p)
{
	double busy = p->figure[SWEEP_CPU].median;

	if (p->nr == 0)
		return;
	if (busy >= SWEEP_CPU_BUSY * p->figure[SWEEP_CORES].median)
		p->client = "CPU";
	else if (busy >= SWEEP_CPU_BUSY * p->figure[SWEEP_CLIENT_CPU].median)
		p->client = "CPU per rank";
	else if (p->figure[SWEEP_SAMPLES].median >= SWEEP_OWN_LIMIT * p->ceiling)
		p->client = "own limit";
}

/* The parameter's values need to be numbers. */
static void find_curve_knee(struct sweep_result *r, size_t curve)
{
	const struct sweep_parameter *first = &r->plan->parameter[0];
	struct knee_point points[SWEEP_VALUES_MAX];
	struct knee *knee = &r->knees[curve];

	for (size_t i = 0; i < first->nr; i++) {
		const struct sweep_point *p = &r->points[curve * first->nr + i];

		points[i] = (struct knee_point){ .value = first->number[i],
						 .rate = p->figure[SWEEP_SAMPLES].median,
						 .latency = p->figure[SWEEP_P50].median,
						 .client = p->client != NULL };
	}
	*knee = knee_find(points, first->nr, r->rules);
	if (knee->kind == KNEE_FOUND || knee->kind == KNEE_BY_LATENCY)
		r->points[curve * first->nr + knee->at].knee = true;
}

int sweep_sum_up(const struct sweep_plan *plan, const struct sweep_job *jobs,
		 const struct sweep_record *records, struct knee_rules rules,
		 struct sweep_result *ret, struct shoal_err *err)
{
	size_t points = sweep_nr_points(plan);
	int rc;

	*ret = (struct sweep_result){ .plan = plan,
				      .rules = rules,
				      .nr_jobs = sweep_nr_jobs(plan),
				      .nr_curves =
					      plan->nr_parameters > 1 ? plan->parameter[1].nr : 1 };
	rc = make_points(ret, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < ret->nr_jobs; i++)
		result_add_record(ret, &jobs[i], &records[i]);
	for (size_t i = 0; i < points; i++) {
		struct sweep_point *p = &ret->points[i];

		for (size_t k = 0; k < SWEEP_NR_FIGURES; k++)
			p->figure[k] = spread_of(p->all[k], p->nr);
		p->ceiling = spread_of(p->ceilings, p->nr_ceilings).median;
		judge_client(p);
	}
	for (size_t c = 0; c < ret->nr_curves; c++) {
		ret->knees[c].kind = KNEE_TOO_FEW;
		if (plan->parameter[0].numeric)
			find_curve_knee(ret, c);
	}
	return 0;
}

void sweep_result_release(struct sweep_result *r)
{
	for (size_t i = 0; r->points && i < sweep_nr_points(r->plan); i++)
		for (size_t k = 0; k < SWEEP_NR_FIGURES; k++)
			free(r->points[i].all[k]);
	free(r->points);
	free(r->knees);
	r->points = NULL;
	r->knees = NULL;
}

/* ---- Words ---- */

bool sweep_from_memory(const struct sweep_point *p)
{
	return p->figure[SWEEP_CACHED].median > SWEEP_MEMORY;
}

void sweep_knee_words(const struct sweep_result *r, size_t curve, char *buf, size_t cap)
{
	const struct sweep_parameter *first = &r->plan->parameter[0];
	const struct knee *knee = &r->knees[curve];
	const struct sweep_point *p = &r->points[curve * first->nr + knee->at];
	double within = 100 * r->rules.within;

	if (!first->numeric)
		snprintf(buf, cap, "none: the values of %s are not numbers", first->name);
	else if (knee->kind == KNEE_TOO_FEW)
		snprintf(buf, cap, "unknown: fewer than two points were measured");
	else if (knee->kind == KNEE_STILL_RISING)
		snprintf(buf, cap,
			 "not reached: throughput still rises by more than %g %% at %s %s", within,
			 first->name, first->value[knee->at]);
	else if (knee->kind == KNEE_CLIENT)
		snprintf(buf, cap,
			 "not found: at %s %s, with %s samples/s, the client is the limit (%s)",
			 first->name, first->value[knee->at],
			 rate_in_words(p->figure[SWEEP_SAMPLES].median).text, p->client);
	else
		snprintf(buf, cap, "%s %s with %s samples/s at %s: %s", first->name,
			 first->value[knee->at],
			 rate_in_words(p->figure[SWEEP_SAMPLES].median).text,
			 time_in_words(p->figure[SWEEP_P50].median * 1e-3).text,
			 knee->kind == KNEE_FOUND ? "more gains little"
						  : "more throughput costs too much latency");
}

/* ---- JSON ---- */

static void put_parameters(const struct sweep_plan *plan, struct json *j)
{
	json_open_array(j, "parameters");
	for (size_t i = 0; i < plan->nr_parameters; i++) {
		const struct sweep_parameter *p = &plan->parameter[i];

		json_open_object(j, NULL);
		json_string(j, "name", p->name);
		json_open_array(j, "values");
		for (size_t k = 0; k < p->nr; k++)
			json_string(j, NULL, p->value[k]);
		json_close_array(j);
		json_close_object(j);
	}
	json_close_array(j);
}

static void put_figure(struct json *j, const struct sweep_point *p, enum sweep_figure which)
{
	const struct stats_spread *s = &p->figure[which];

	if (isnan(s->median)) {
		json_null(j, sweep_figure_name(which));
		return;
	}
	json_open_object(j, sweep_figure_name(which));
	json_real(j, "median", s->median, 9);
	json_real(j, "lowest", s->lowest, 9);
	json_real(j, "highest", s->highest, 9);
	json_open_array(j, "all");
	for (size_t i = 0; i < p->nr; i++)
		json_real(j, NULL, p->all[which][i], 9);
	json_close_array(j);
	json_close_object(j);
}

static void put_point(const struct sweep_result *r, size_t at, struct json *j)
{
	const struct sweep_point *p = &r->points[at];

	json_open_object(j, NULL);
	json_open_object(j, "values");
	for (size_t i = 0; i < r->plan->nr_parameters; i++)
		json_string(j, r->plan->parameter[i].name, sweep_value(r->plan, at, i));
	json_close_object(j);
	json_u64(j, "runs", p->nr);
	for (size_t k = 0; k < SWEEP_NR_FIGURES; k++)
		put_figure(j, p, (enum sweep_figure)k);
	json_real(j, "ceiling", p->ceiling, 9);
	json_open_array(j, "ceilings");
	for (size_t i = 0; i < p->nr_ceilings; i++)
		json_real(j, NULL, p->ceilings[i], 9);
	json_close_array(j);
	json_bool(j, "knee", p->knee);
	json_string(j, "client_bound", p->client);
	json_string(j, "error", p->error[0] ? p->error : NULL);
	json_close_object(j);
}

static void result_put_knees(const struct sweep_result *r, struct json *j)
{
	static const char *const kinds[] = { [KNEE_FOUND] = "found",
					     [KNEE_BY_LATENCY] = "limited by latency",
					     [KNEE_STILL_RISING] = "still rising",
					     [KNEE_CLIENT] = "limited by the client",
					     [KNEE_TOO_FEW] = "unknown" };
	const struct sweep_plan *plan = r->plan;
	char words[512];

	json_open_array(j, "knees");
	for (size_t c = 0; c < r->nr_curves; c++) {
		bool found = r->knees[c].kind <= KNEE_BY_LATENCY;

		sweep_knee_words(r, c, words, sizeof(words));
		json_open_object(j, NULL);
		json_string(j, "kind", kinds[r->knees[c].kind]);
		json_string(j, plan->parameter[0].name,
			    found ? plan->parameter[0].value[r->knees[c].at] : NULL);
		if (plan->nr_parameters > 1)
			json_string(j, plan->parameter[1].name, plan->parameter[1].value[c]);
		json_string(j, "words", words);
		json_close_object(j);
	}
	json_close_array(j);
}

/* With several numbers of ranks it may be another one at each point. */
static double most_cores(const struct sweep_result *r)
{
	double most = (double)NAN;

	for (size_t i = 0; i < sweep_nr_points(r->plan); i++)
		most = fmax(most, r->points[i].figure[SWEEP_CORES].highest);
	return most;
}

void sweep_put_result(const struct sweep_result *r, struct json *j)
{
	double cores = most_cores(r);

	json_bool(j, "complete", r->nr_done == r->nr_jobs);
	json_u64(j, "jobs", r->nr_jobs);
	json_u64(j, "jobs_done", r->nr_done);
	json_u64(j, "repeats", r->plan->repeats);
	json_format(j, "seed", "%llu", (unsigned long long)r->plan->seed);
	if (isnan(cores))
		json_null(j, "cores");
	else
		json_u64(j, "cores", (uint64_t)cores);
	json_real(j, "knee_within", r->rules.within, 6);
	json_real(j, "knee_slower", r->rules.slower, 6);
	put_parameters(r->plan, j);
	result_put_knees(r, j);
	json_open_array(j, "points");
	for (size_t i = 0; i < sweep_nr_points(r->plan); i++)
		put_point(r, i, j);
	json_close_array(j);
}
