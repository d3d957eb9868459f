/*
 * bench_order - the cost of an index of the order, one by one and in batches, and of starting an
 * epoch. Each line has a name, the number of samples, a value and its unit, separated by tabs. The
 * value is CPU time, and the minimum of several tries, because disturbances only ever make a try
 * longer.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "order/perm.h"
#include "shoal.h"

#define TRIES 7
#define BATCH 256
#define NR    (BATCH * 2000)

static uint64_t out[BATCH];
static uint64_t sink; /* so that nothing is optimised away */

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void row(const char *name, uint64_t n, double value, const char *unit)
{
	printf("%s\t%" PRIu64 "\t%.2f\t%s\n", name, n, value, unit);
}

static double one_by_one(const struct perm *p)
{
	double start = now_ns();

	for (uint64_t i = 0; i < NR; i++)
		sink += perm_at(p, i);
	return (now_ns() - start) / NR;
}

static double inverse(const struct perm *p)
{
	double start = now_ns();

	for (uint64_t i = 0; i < NR; i++)
		sink += perm_inverse(p, i);
	return (now_ns() - start) / NR;
}

static double range(const struct perm *p)
{
	double start = now_ns();

	for (uint64_t i = 0; i < NR; i += BATCH) {
		perm_range(p, i, BATCH, out);
		sink += out[i % 7];
	}
	return (now_ns() - start) / NR;
}

static double many(const struct perm *p)
{
	uint64_t positions[BATCH];
	double start;

	for (size_t i = 0; i < BATCH; i++)
		positions[i] = p->n / 257 * (i + 1);
	start = now_ns();
	for (uint64_t i = 0; i < NR; i += BATCH) {
		perm_many(p, positions, BATCH, out);
		sink += out[i % 7];
	}
	return (now_ns() - start) / NR;
}

static double least(double (*measure)(const struct perm *p), const struct perm *p)
{
	double best = measure(p);

	for (int i = 1; i < TRIES; i++) {
		double ns = measure(p);

		best = ns < best ? ns : best;
	}
	return best;
}

static void bench_perm(uint64_t n)
{
	static const char *const kind[][2] = {
		{ "range_plain", "many_plain" },
		{ "range_avx2", "many_avx2" },
		{ "range_avx512", "many_avx512" },
	};
	static const struct perm_key key = { PERM_GLOBAL, 1, 2, 0 };
	static struct perm p;

	perm_init(&p, n, &key);
	row("one_by_one", n, least(one_by_one, &p), "ns/index");
	row("inverse", n, least(inverse, &p), "ns/index");
	for (int simd = PERM_PLAIN; simd <= PERM_AVX512; simd++) {
		if (!perm_set_simd(&p, (enum perm_simd)simd))
			continue;
		row(kind[simd][0], n, least(range, &p), "ns/index");
		row(kind[simd][1], n, least(many, &p), "ns/index");
	}
}

/* Batches of 256 for 24 ranks, as in a training job. */
static double batches(const struct shoal_order *o)
{
	double start = now_ns();

	for (uint64_t step = 0; step < NR / BATCH; step++) {
		if (shoal_order_batch(o, step % 1000, step % 24, out) != BATCH)
			abort();
		sink += out[step % 7];
	}
	return (now_ns() - start) / NR;
}

static double epochs(struct shoal_order *o)
{
	double start = now_ns();

	for (uint64_t epoch = 0; epoch < 1000; epoch++)
		shoal_order_set_epoch(o, epoch);
	return (now_ns() - start) / 1000;
}

static void bench_order(const char *name, const char *epoch_name, enum shoal_mode mode, uint64_t n)
{
	struct shoal_order_spec spec = {
		.mode = mode, .nr_samples = n, .unit = 400, .nr_ranks = 24, .batch = BATCH
	};
	size_t before = mallinfo2().uordblks;
	struct shoal_order *o = NULL;
	double best = 1e30;

	if (shoal_order_new(&spec, 0, &o, NULL) < 0)
		abort();
	row("memory", n, (double)(mallinfo2().uordblks - before), "bytes");
	row(epoch_name, n, epochs(o), "ns");
	for (int i = 0; i < TRIES; i++) {
		double ns = batches(o);

		best = ns < best ? ns : best;
	}
	row(name, n, best, "ns/index");
	shoal_order_free(o);
}

static void bench_table(void)
{
	static const struct perm_key key = { PERM_GLOBAL, 1, 2, 0 };
	static struct perm p;
	double start = now_ns();

	for (int i = 0; i < 1000; i++)
		perm_init(&p, PERM_TABLE, &key);
	row("init_table", PERM_TABLE, (now_ns() - start) / 1000, "ns");
}

int main(void)
{
	static const uint64_t sizes[] = { 7646857, 100000000, 1000000000, UINT64_C(1000000000000) };

	for (double start = now_ns(); now_ns() - start < 3e8;) /* until the clock rate is up */
		sink++;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		bench_perm(sizes[i]);
		bench_order("batch_global", "epoch_global", SHOAL_GLOBAL, sizes[i]);
		bench_order("batch_files", "epoch_files", SHOAL_FILES, sizes[i]);
		bench_order("batch_window", "epoch_window", SHOAL_WINDOW, sizes[i]);
		bench_order("batch_local", "epoch_local", SHOAL_LOCAL, sizes[i]);
	}
	bench_table();
	return sink == 1; /* never, but the compiler does not know */
}
