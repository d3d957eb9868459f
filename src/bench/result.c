#include "bench/result.h"

#include <stdlib.h>

bool bench_result_measured(const struct bench_result *r)
{
	for (size_t i = 0; i < r->nr_phases; i++)
		if (!r->phases[i].eval && r->phases[i].steps_counted > 0 &&
		    bench_result_counts(r, i))
			return true;
	return false;
}

uint64_t bench_result_errors(const struct bench_result *r)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < r->nr_phases; i++)
		nr += r->phases[i].errors;
	return nr;
}

bool bench_result_counts(const struct bench_result *r, size_t i)
{
	if (!r->phases[i].partial)
		return true;
	for (size_t k = 0; k < r->nr_phases; k++)
		if (r->phases[k].eval == r->phases[i].eval && !r->phases[k].partial)
			return false;
	return true;
}

/* Mean and deviation of one figure over the epochs of a kind. */
static void over_epochs(const struct bench_result *r, bool eval, bool au, double *ret_mean,
			double *ret_stdev, size_t *ret_nr)
{
	double values[64] = { 0 }, *v = values; /* most runs have few epochs */
	size_t nr = 0;

	if (r->nr_phases > SHOAL_ARRAY_LEN(values))
		v = calloc(r->nr_phases, sizeof(*v));
	for (size_t i = 0; v && i < r->nr_phases; i++)
		if ((r->phases[i].eval != 0) == eval && bench_result_counts(r, i))
			v[nr++] = au ? r->phases[i].figures.au : r->phases[i].figures.throughput;
	bench_mean_stdev(v ? v : values, nr, ret_mean, ret_stdev);
	*ret_nr = nr;
	if (v != values)
		free(v);
}

static void sum_up(const struct bench_result *r, bool eval, struct bench_summary *s)
{
	double mib = r->workload->dataset.record_bytes / 1048576.0;

	over_epochs(r, eval, true, &s->au, &s->au_stdev, &s->nr);
	over_epochs(r, eval, false, &s->throughput, &s->throughput_stdev, &s->nr);
	s->io = s->throughput * mib;
	s->io_stdev = s->throughput_stdev * mib;
	s->meets = s->au >= r->workload->au * 100.0;
}

void bench_result_sum_up(struct bench_result *r)
{
	sum_up(r, false, &r->train);
	sum_up(r, true, &r->eval);
}

void bench_result_release(struct bench_result *r)
{
	free(r->phases);
	free(r->nodes);
	free(r->data);
	free(r->catalog);
	*r = (struct bench_result){ 0 };
}
