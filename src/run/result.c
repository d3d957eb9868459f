#include "run/result.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool run_result_measured(const struct run_result *r)
{
	for (size_t i = 0; i < r->nr_phases; i++)
		if (!r->phases[i].eval && r->phases[i].steps_counted > 0 && run_result_counts(r, i))
			return true;
	return false;
}

bool run_result_audited(const struct run_result *r)
{
	for (size_t i = 0; i < r->nr_phases; i++)
		if (r->phases[i].proof == RUN_WRONG)
			return false;
	return true;
}

uint64_t run_result_errors(const struct run_result *r)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < r->nr_phases; i++)
		nr += r->phases[i].errors;
	return nr;
}

bool run_result_counts(const struct run_result *r, size_t i)
{
	if (!r->phases[i].partial)
		return true;
	for (size_t k = 0; k < r->nr_phases; k++)
		if (r->phases[k].eval == r->phases[i].eval && !r->phases[k].partial)
			return false;
	return true;
}

const char *run_result_unfit(const struct run_result *r)
{
	bool partial = r->partial;

	for (size_t i = 0; i < r->nr_phases; i++)
		partial = partial || r->phases[i].partial;
	if (r->synthetic)
		return "the bytes are synthetic";
	if (partial)
		return "the run was interrupted";
	if (run_result_errors(r) > 0)
		return "samples were left out";
	if (!run_result_audited(r))
		return "not every sample was read exactly once";
	if (r->workload->workflow.checkpoint)
		return "the workload's checkpoints were not written";
	return r->resumed ? "the run was interrupted and resumed" : NULL;
}

/* Mean and deviation of one figure over the phases of a kind. */
static void over_epochs(const struct run_result *r, bool eval, bool au, double *ret_mean,
			double *ret_stdev, size_t *ret_nr)
{
	double values[64] = { 0 }, *v = values; /* most runs have few epochs */
	size_t nr = 0;

	if (r->nr_phases > ARRAY_LEN(values))
		v = calloc(r->nr_phases, sizeof(*v));
	for (size_t i = 0; v && i < r->nr_phases; i++)
		if ((r->phases[i].eval != 0) == eval && run_result_counts(r, i))
			v[nr++] = au ? r->phases[i].figures.au : r->phases[i].figures.throughput;
	step_mean_stdev(v ? v : values, nr, ret_mean, ret_stdev);
	*ret_nr = nr;
	if (v != values)
		free(v);
}

static void summarise(const struct run_result *r, bool eval, struct run_summary *s)
{
	double mib = r->workload->dataset.record_bytes / 1048576.0;

	over_epochs(r, eval, true, &s->au, &s->au_stdev, &s->nr);
	over_epochs(r, eval, false, &s->throughput, &s->throughput_stdev, &s->nr);
	s->io = s->throughput * mib;
	s->io_stdev = s->throughput_stdev * mib;
	s->meets = s->au >= r->workload->au * 100.0;
}

/* From this share on, the processors that the loaders can use count as busy. */
#define BUSY 0.8

/* Rings whose number was given are worked by one thread each; otherwise loaders use what helps. */
static double result_usable_cores(const struct run_result *r)
{
	double cores = (double)r->cores, rings = (double)(r->threads * r->nr_ranks);

	return rings > 0 && strcmp(r->engine, "uring") == 0 && rings < cores ? rings : cores;
}

bool run_result_limit(const struct run_result *r, char *words, size_t cap)
{
	const struct run_result_phase *p = NULL;
	double used, asked, compute;
	char read[64] = "";
	bool busy;

	for (size_t i = 0; i < r->nr_phases; i++)
		if (!r->phases[i].eval && run_result_counts(r, i))
			p = &r->phases[i];
	compute = workload_time_mean(&r->workload->train.computation_time);
	if (!p || r->train.meets || p->block_seconds <= 0 || compute <= 0 || r->cores == 0 ||
	    p->time.data < p->time.ranks)
		return false;
	used = p->cpu_us * 1e-6 * (double)p->samples / p->block_seconds;
	busy = used >= BUSY * result_usable_cores(r);
	asked = (double)r->workload->reader.batch * (double)r->nr_accelerators / compute;
	if (p->steps_counted > 0) /* otherwise the rate is not known */
		snprintf(read, sizeof(read), ", of which %.*f were read",
			 p->figures.throughput < 100, p->figures.throughput);
	snprintf(words, cap,
		 "at full utilisation the workload takes %.*f samples/s%s; the limit was %s: "
		 "%.1f of %" PRIu64 " processors were busy",
		 asked < 100, asked, read, busy ? "the clients' processors" : "the storage", used,
		 r->cores);
	return true;
}

void run_result_sum_up(struct run_result *r)
{
	summarise(r, false, &r->train);
	summarise(r, true, &r->eval);
}

void run_result_release(struct run_result *r)
{
	free(r->phases);
	free(r->nodes);
	free(r->data);
	free(r->catalog);
	*r = (struct run_result){ 0 };
}
