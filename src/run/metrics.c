#include "run/metrics.h"

#include <math.h>

void step_block_start(struct step_block *b, uint64_t nr_steps, struct step_window window)
{
	*b = (struct step_block){ .nr_steps = nr_steps, .window = window };
}

/* Whether step @i of the block counts. Written without sums, which could wrap. */
static bool inside(const struct step_block *b, uint64_t i)
{
	return i >= b->window.exclude_start && i < b->nr_steps &&
	       b->nr_steps - i > b->window.exclude_end;
}

void step_block_add(struct step_block *b, const struct run_step *step)
{
	b->load += step->load;
	b->compute += step->compute;
	b->planned += step->planned;
	b->errors += step->errors;
	if (inside(b, b->nr_added++)) {
		b->nr_inside++;
		b->errors_inside += step->errors;
		b->compute_inside += step->compute;
		b->planned_inside += step->planned;
	} else {
		b->proc_outside += step->load + step->compute;
	}
}

/* Samples per second, for @steps steps without the unread samples. */
static double rate(uint64_t steps, uint64_t batch, uint64_t errors, double ns)
{
	double samples = (double)steps * (double)batch - (double)errors;

	return samples > 0 ? samples / (ns * 1e-9) : 0;
}

struct step_figures step_block_figures(const struct step_block *b, uint64_t batch, uint64_t wall)
{
	double total;

	if (b->nr_inside == 0 || wall <= b->proc_outside)
		return (struct step_figures){ 0 };
	total = (double)(wall - b->proc_outside);
	return (struct step_figures){
		.au = 100.0 * (double)b->compute_inside / total,
		.au_planned = 100.0 * (double)b->planned_inside / total,
		.throughput = rate(b->nr_inside, batch, b->errors_inside, total),
	};
}

struct step_figures step_eval_figures(const struct step_block *b, uint64_t batch, uint64_t wall)
{
	struct step_figures f = step_block_figures(b, batch, wall);

	f.throughput = wall ? rate(b->nr_added, batch, b->errors, (double)wall) : 0;
	return f;
}

void step_mean_add(struct step_mean *m, const struct step_figures *f, uint64_t steps)
{
	m->sum.au += f->au * (double)steps;
	m->sum.au_planned += f->au_planned * (double)steps;
	m->sum.throughput += f->throughput * (double)steps;
	m->weight += steps;
}

struct step_figures step_mean_figures(const struct step_mean *m)
{
	double n = (double)m->weight;

	if (m->weight == 0)
		return (struct step_figures){ 0 };
	return (struct step_figures){ .au = m->sum.au / n,
				      .au_planned = m->sum.au_planned / n,
				      .throughput = m->sum.throughput / n };
}

void step_mean_stdev(const double *values, size_t nr, double *ret_mean, double *ret_stdev)
{
	double mean = 0, square = 0;

	for (size_t i = 0; i < nr; i++)
		mean += values[i];
	mean = nr ? mean / (double)nr : 0;
	for (size_t i = 0; i < nr; i++)
		square += (values[i] - mean) * (values[i] - mean);
	*ret_mean = mean;
	*ret_stdev = nr ? sqrt(square / (double)nr) : 0;
}
