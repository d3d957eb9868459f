/*
 * Sizes of files and lengths of time, drawn by a key instead of a generator with a state: the same
 * key gives the same on every rank, in any order, as often as asked.
 */
#include <math.h>

#include "bench/keys.h"

/* ---- Keys ---- */

/* A bijection of 64 bits in which every bit depends on every other. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	return x;
}

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t bench_key(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	uint64_t h = mix(a + GOLDEN);

	h = mix(h + GOLDEN + b);
	h = mix(h + GOLDEN + c);
	return mix(h + GOLDEN + d);
}

/* The next number in (0, 1), never 0 or 1, of the stream that *@state is. */
static double uniform(uint64_t *state)
{
	*state += GOLDEN;
	return ((double)(mix(*state) >> 12) + 0.5) * 0x1p-52;
}

/* ---- The normal distribution ---- */

static double density(double x)
{
	return exp(-0.5 * x * x) * 0.3989422804014326779;
}

/* The probability of less than @x. */
static double below(double x)
{
	return 0.5 * erfc(-x * 0.7071067811865475244);
}

/* Where below() is @p, 0 < p < 1: a rough start, then Newton's way. */
static double quantile(double p)
{
	double tail = p < 0.5 ? p : 1 - p, t = sqrt(-2 * log(tail));
	double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
			       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

	if (p < 0.5)
		x = -x;
	for (int i = 0; i < 3; i++)
		x -= (below(x) - p) / density(x);
	return x;
}

/* ---- Sizes ---- */

/* Records are cut at so many deviations, and are never less than this part of the mean. */
#define REACH 3.0
#define LEAST 0.01

/* The deviation of a normal distribution of @sigma that is cut at @reach to either side. */
static double cut_deviation(double sigma, double reach)
{
	double a = reach / sigma;

	if (a < 1e-3) /* flat: what follows would lose all its digits */
		return reach / sqrt(3.0);
	return sigma * sqrt(1 - 2 * a * density(a) / (2 * below(a) - 1));
}

bool bench_spread_fit(double mean, double stdev, struct bench_spread *spread)
{
	double reach = fmin(REACH * stdev, mean * (1 - LEAST)), low = stdev, high = 100 * reach;

	*spread = (struct bench_spread){ 0 };
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
	*spread =
		(struct bench_spread){ .sigma = high, .reach = reach, .low = below(-reach / high) };
	return true;
}

static uint64_t whole_file(const struct bench_workload *w, double record)
{
	double bytes = floor(record * (double)w->dataset.samples_per_file + 0.5);

	return bytes < 1 ? 1 : (uint64_t)bytes;
}

uint64_t bench_file_size(const struct bench_workload *w, bool valid, uint64_t id)
{
	const struct bench_spread *s = &w->dataset.spread;
	uint64_t state;
	double p, off;

	if (s->sigma <= 0)
		return whole_file(w, w->dataset.record_bytes);
	/* 's', so that sizes and other draws of the same seed differ. */
	state = bench_key(w->train.seed, 's', valid, id);
	p = s->low + uniform(&state) * (1 - 2 * s->low);
	off = quantile(p) * s->sigma;
	return whole_file(w, w->dataset.record_bytes + fmax(-s->reach, fmin(s->reach, off)));
}

uint64_t bench_file_size_max(const struct bench_workload *w)
{
	return whole_file(w, w->dataset.record_bytes + w->dataset.spread.reach);
}

uint64_t bench_record_size(const struct bench_workload *w, bool valid, uint64_t id)
{
	return bench_file_size(w, valid, id) / w->dataset.samples_per_file;
}

/* ---- Times ---- */

double bench_time_mean(const struct bench_time *t)
{
	switch (t->kind) {
	case BENCH_TIME_NONE:
		return 0;
	case BENCH_TIME_FIXED:
	case BENCH_TIME_EXPONENTIAL:
	case BENCH_TIME_POISSON:
		return t->a;
	case BENCH_TIME_NORMAL: /* without its sign */
		return 2 * t->b * density(t->a / t->b) +
		       t->a * erf(t->a / t->b * 0.7071067811865475244);
	case BENCH_TIME_UNIFORM:
		return 0.5 * (t->a + t->b);
	case BENCH_TIME_GAMMA:
		return t->a * t->b;
	}
	return 0;
}

static double draw_normal(uint64_t *state)
{
	return quantile(uniform(state));
}

/* Marsaglia and Tsang's method; a shape below 1 is one more, and a power. */
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

/* Events in a time of @lam, by the gaps between them. */
static double draw_poisson(double lam, uint64_t *state)
{
	double nr = 0, time = -log(uniform(state));

	while (time < lam) {
		nr++;
		time -= log(uniform(state));
	}
	return nr;
}

double bench_time_draw(const struct bench_time *t, uint64_t key)
{
	uint64_t state = key;

	switch (t->kind) {
	case BENCH_TIME_NONE:
		return 0;
	case BENCH_TIME_FIXED:
		return t->a;
	case BENCH_TIME_NORMAL:
		return fabs(t->a + t->b * draw_normal(&state));
	case BENCH_TIME_UNIFORM:
		return t->a + (t->b - t->a) * uniform(&state);
	case BENCH_TIME_GAMMA:
		return t->b * draw_gamma(t->a, &state);
	case BENCH_TIME_EXPONENTIAL:
		return -t->a * log(uniform(&state));
	case BENCH_TIME_POISSON:
		return draw_poisson(t->a, &state);
	}
	return 0;
}
