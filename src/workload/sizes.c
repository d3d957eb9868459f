/*
 * File sizes and durations, drawn by a key instead of a stateful generator: the same key gives the
 * same value on every rank, in any order, any number of times.
 */
#include <math.h>

#include "workload/keys.h"

/* ---- Keys ---- */

/* A bijection on 64 bits in which every bit depends on every other. */
static uint64_t mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	return x;
}

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t workload_key(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t h = mix64(a + GOLDEN);

	h = mix64(h + GOLDEN + b);
	h = mix64(h + GOLDEN + c);
	return mix64(h + GOLDEN + d);
}

/* The next number in (0, 1), never 0 or 1, of the stream *@state. */
static double uniform(uint64_t *state)
{
	*state += GOLDEN;
	return ((double)(mix64(*state) >> 12) + 0.5) * 0x1p-52;
}

/* ---- The normal distribution ---- */

static double normal_density(double x)
{
	return exp(-0.5 * x * x) * 0.3989422804014326779;
}

/* The distribution function: the probability of a value below @x. */
static double normal_below(double x)
{
	return 0.5 * erfc(-x * 0.7071067811865475244);
}

/* The inverse of normal_below() for 0 < p < 1: a rough start, then Newton's method. */
static double normal_quantile(double p)
{
	double tail = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(tail));
	double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
			       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

	if (p < 0.5)
		x = -x;
	for (int i = 0; i < 3; i++)
		x -= (normal_below(x) - p) / normal_density(x);
	return x;
}

/* ---- Sizes ---- */

/* Record lengths are truncated at this many deviations, and at this fraction of the mean. */
#define REACH 3.0
#define LEAST 0.01

/* The deviation of a normal distribution with @sigma, truncated at @reach on each side. */
static double cut_deviation(double sigma, double reach)
{
	double a = reach / sigma;

	if (a < 1e-3) /* nearly uniform: the formula below would lose all its digits */
		return reach / sqrt(3.0);
	return sigma * sqrt(1 - 2 * a * normal_density(a) / (2 * normal_below(a) - 1));
}

bool workload_spread_fit(double mean, double stdev, struct workload_spread *spread)
{
	double reach = fmin(REACH * stdev, mean * (1 - LEAST)), low = stdev, high = 100 * reach;

	*spread = (struct workload_spread){ 0 };
	if (stdev <= 0)
		return true;
	if (cut_deviation(high, reach) < stdev)
		return false;
	for (int i = 0; i < 100; i++) {
		double middle = 0.5 * (low + high);

		if (cut_deviation(middle, reach) < stdev)
			low = middle;
		else
			high = middle;
	}
	*spread = (struct workload_spread){ .sigma = high,
					    .reach = reach,
					    .low = normal_below(-reach / high) };
	return true;
}

static uint64_t whole_file(const struct workload *w, double record)
{
	double bytes = floor(record * (double)w->dataset.samples_per_file + 0.5);

	return bytes < 1 ? 1 : (uint64_t)bytes;
}

uint64_t workload_file_size(const struct workload *w, bool valid, uint64_t id)
{
	const struct workload_spread *s = &w->dataset.spread;
	uint64_t state;
	double p, off;

	if (w->dataset.table_bytes)
		return w->dataset.table_bytes;
	if (s->sigma <= 0)
		return whole_file(w, w->dataset.record_bytes);
	/* 's', so that sizes and other draws of the same seed differ. */
	state = workload_key(w->train.seed, 's', valid, id);
	p = s->low + uniform(&state) * (1 - 2 * s->low);
	off = normal_quantile(p) * s->sigma;
	return whole_file(w, w->dataset.record_bytes + fmax(-s->reach, fmin(s->reach, off)));
}

uint64_t workload_file_size_max(const struct workload *w)
{
	if (w->dataset.table_bytes)
		return w->dataset.table_bytes;
	return whole_file(w, w->dataset.record_bytes + w->dataset.spread.reach);
}

/* ---- Times ---- */

double workload_time_mean(const struct workload_time *t)
{
	switch (t->kind) {
	case WORKLOAD_TIME_NONE:
		return 0;
	case WORKLOAD_TIME_FIXED:
	case WORKLOAD_TIME_EXPONENTIAL:
	case WORKLOAD_TIME_POISSON:
		return t->a;
	case WORKLOAD_TIME_NORMAL: /* absolute value */
		return 2 * t->b * normal_density(t->a / t->b) +
		       t->a * erf(t->a / t->b * 0.7071067811865475244);
	case WORKLOAD_TIME_UNIFORM:
		return 0.5 * (t->a + t->b);
	case WORKLOAD_TIME_GAMMA:
		return t->a * t->b;
	}
	return 0;
}

static double draw_normal(uint64_t *state)
{
	return normal_quantile(uniform(state));
}

/*
 * The method of Marsaglia and Tsang; a shape below 1 is increased by one and corrected by a power.
 */
static double draw_gamma(double shape, uint64_t *state)
{
	double boost = 1, d, c;

	if (shape <= 0)
		return 0;
	if (shape < 1) {
		boost = pow(uniform(state), 1 / shape);
		shape += 1;
	}
	d = shape - 1.0 / 3;
	c = 1 / sqrt(9 * d);
	for (;;) {
		double x = draw_normal(state), v = 1 + c * x;

		if (v <= 0)
			continue;
		v = v * v * v;
		if (log(uniform(state)) < 0.5 * x * x + d * (1 - v + log(v)))
			return boost * d * v;
	}
}

/* The number of events in a time of @lam, from the gaps between them. */
static double draw_poisson(double lam, uint64_t *state)
{
	double nr = 0, time = -log(uniform(state));

	while (time < lam) {
		nr++;
		time -= log(uniform(state));
	}
	return nr;
}

double workload_time_draw(const struct workload_time *t, uint64_t key)
{
	uint64_t state = key;

	switch (t->kind) {
	case WORKLOAD_TIME_NONE:
		return 0;
	case WORKLOAD_TIME_FIXED:
		return t->a;
	case WORKLOAD_TIME_NORMAL:
		return fabs(t->a + t->b * draw_normal(&state));
	case WORKLOAD_TIME_UNIFORM:
		return t->a + (t->b - t->a) * uniform(&state);
	case WORKLOAD_TIME_GAMMA:
		return t->b * draw_gamma(t->a, &state);
	case WORKLOAD_TIME_EXPONENTIAL:
		return -t->a * log(uniform(&state));
	case WORKLOAD_TIME_POISSON:
		return draw_poisson(t->a, &state);
	}
	return 0;
}
