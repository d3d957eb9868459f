/* The table at the end of a run. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "report/report.h"

#define TEXT_MAX (1u << 20) /* a line per epoch */

/* Above this cached share, a note states that the figures are not the storage's. */
#define CACHED_NOTABLE 0.05

#define LATE_NOTABLE 1.0 /* percent */

struct table {
	struct buf buf;
	bool colour;
};

static void PRINTF_LIKE(2, 3) table_put(struct table *t, const char *fmt, ...)
{
	char line[2048];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (len > 0)
		buf_append(&t->buf, line, (size_t)u64_min((uint64_t)len, sizeof(line) - 1));
}

static const char *colour(const struct table *t, const char *escape)
{
	return t->colour ? escape : "";
}

#define BOLD  "\033[1m"
#define RED   "\033[31m"
#define GREEN "\033[32m"
#define PLAIN "\033[0m"

static const char *proof_words(const struct run_result_phase *p)
{
	if (p->proof == RUN_PROVEN)
		return p->audit.from_step ? "once (rest)" : "once";
	return p->proof == RUN_WRONG ? "NOT ONCE" : "-";
}

static void table_put_phase(struct table *t, const struct run_result_phase *p, bool direct)
{
	char cached[16] = "-", name[32];
	double rate = p->block_seconds > 0 ? (double)p->bytes_delivered / p->block_seconds : 0;

	if (direct) /* whatever the page cache had, it was not used */
		snprintf(cached, sizeof(cached), "direct");
	else if (!isnan(p->cached_share))
		snprintf(cached, sizeof(cached), "%.1f %%", 100.0 * p->cached_share);
	snprintf(name, sizeof(name), "%" PRIu32 "%s%s", p->epoch, p->eval ? " eval" : "",
		 p->partial ? "*" : "");
	table_put(t,
		  "%-8s %9" PRIu64
		  " %9.1f %7.2f %11.0f %9.1f %6.1f %9.2f %9.2f %8s %7.1f %7.1f  %s\n",
		  name, p->steps, p->seconds, p->figures.au, p->figures.throughput, rate * 1e-6,
		  100.0 * p->wait_share, p->latency.p50 * 1e-3, p->latency.p99 * 1e-3, cached,
		  p->queue_depth, p->cpu_us, proof_words(p));
}

/* Where the utilisation was lost, over all epochs of training. */
static void table_put_time(struct table *t, const struct run_result *r)
{
	struct run_time sum = { 0 };
	double all;

	for (size_t i = 0; i < r->nr_phases; i++) {
		const struct run_time *one = &r->phases[i].time;

		if (r->phases[i].eval)
			continue;
		sum.planned += one->planned;
		sum.late += one->late;
		sum.data += one->data;
		sum.ranks += one->ranks;
	}
	all = sum.planned + sum.late + sum.data + sum.ranks;
	if (all > 0)
		table_put(t,
			  "time      %.1f s: compute %.1f %%, woken late %.1f %%, waiting for data "
			  "%.1f %%, waiting for other ranks %.1f %%\n",
			  all, 100 * sum.planned / all, 100 * sum.late / all, 100 * sum.data / all,
			  100 * sum.ranks / all);
}

static void table_put_slowest(struct table *t, const struct run_result *r)
{
	const struct run_result_phase *worst = NULL;

	for (size_t i = 0; i < r->nr_phases; i++)
		if (!worst || r->phases[i].slowest.sample_seconds > worst->slowest.sample_seconds)
			worst = &r->phases[i];
	if (!worst)
		return;
	table_put(t,
		  "slowest   sample %" PRIu64 " '%s' took %.3f s on rank %" PRIu64
		  " in epoch %" PRIu32 "; rank %" PRIu64 " waited most for batches there: %.2f s\n",
		  worst->slowest.sample, worst->slowest.name, worst->slowest.sample_seconds,
		  worst->slowest.sample_rank, worst->epoch, worst->slowest.rank,
		  worst->slowest.seconds);
}

static void table_put_memory(struct table *t, const struct run_result *r)
{
	for (size_t i = 0; i < r->nr_nodes && i < 8; i++) {
		const struct run_node *n = &r->nodes[i];

		table_put(t,
			  "memory    %s used on %s (%" PRIu64
			  " rank%s); there is room for %s in buffers, and a catalog of %s\n",
			  size_in_words(n->pss_bytes).text, n->host, n->nr_ranks,
			  plural(n->nr_ranks), size_in_words(n->pool_bytes).text,
			  size_in_words(n->catalog_bytes).text);
	}
	if (r->nr_nodes > 8)
		table_put(t, "memory    %zu nodes more: see summary.json\n", r->nr_nodes - 8);
}

/* The percentage of utilisation that is sleep beyond the planned time. */
static double late_percent(const struct run_result *r)
{
	const struct step_figures *f = &r->phases[r->nr_phases - 1].figures;

	return f->au - f->au_planned;
}

/* What kept training from reaching its target. */
static void table_put_limit(struct table *t, const struct run_result *r)
{
	char words[300];

	if (run_result_limit(r, words, sizeof(words)))
		table_put(t, "limit     %s\n", words);
}

/* Samples of training that no epoch reads. */
static void table_put_left_over(struct table *t, const struct run_result *r)
{
	const struct run_result_phase *p = r->phases;

	if (r->nr_phases && p->left_over)
		table_put(t,
			  "note      %" PRIu64
			  " sample%s fill%s no step and %s left over in each epoch\n",
			  p->left_over, plural(p->left_over), p->left_over == 1 ? "s" : "",
			  p->left_over == 1 ? "is" : "are");
}

/* Facts that are needed to judge the figures. */
static void table_put_notes(struct table *t, const struct run_result *r)
{
	double bytes = 0, cached = 0;

	for (size_t i = 0; i < r->nr_phases; i++) {
		const struct run_result_phase *p = &r->phases[i];

		bytes += isnan(p->cached_share) ? 0 : (double)p->bytes_delivered;
		cached += isnan(p->cached_share) ? 0 : p->cached_share * (double)p->bytes_delivered;
	}
	if (r->synthetic)
		table_put(
			t,
			"note      the bytes are synthetic: this measures Shoal, not the storage\n");
	else if (!r->direct && cached > CACHED_NOTABLE * bytes)
		table_put(
			t,
			"note      %.1f %% of the bytes came from memory: this is not the storage's speed%s\n",
			100.0 * cached / bytes,
			r->drop_cache
				? ""
				: "; DLIO 3 drops the page cache before each epoch, this run did not");
	if (r->nr_phases && late_percent(r) > LATE_NOTABLE)
		table_put(
			t,
			"note      this machine woke sleepers late: with the planned compute times "
			"AU is %.2f %% in the last epoch\n",
			r->phases[r->nr_phases - 1].figures.au_planned);
	if (r->resumed)
		table_put(t,
			  "note      resumed %" PRIu64 " time%s: each part of an epoch has its own "
			  "figures in *_output.json\n",
			  r->resumed, plural(r->resumed));
	if (r->no_series[0])
		table_put(t, "note      no time series: %s\n", r->no_series);
	if (r->partial)
		table_put(
			t,
			"note      * %s: these figures are partial, and not part of any mean with whole "
			"epochs\n",
			r->why_partial);
}

/* Samples that are missing from all figures above. */
static void table_put_errors(struct table *t, const struct run_result *r)
{
	uint64_t nr = run_result_errors(r);

	if (nr > 0)
		table_put(t,
			  "errors    %" PRIu64 " sample%s could not be read and %s not counted\n",
			  nr, plural(nr), nr == 1 ? "is" : "are");
	for (size_t i = 0; i < r->nr_errors; i++)
		table_put(t, "          %s\n", r->errors[i]);
}

static void table_put_sums(struct table *t, const struct run_result *r)
{
	const char *unfit = run_result_unfit(r);
	double bar = r->workload->au * 100.0;

	if (!run_result_measured(r)) {
		table_put(t, "AU        unknown: all steps of an epoch are excluded\n");
		return;
	}
	table_put(t, "%sAU        %.2f %% (deviation %.2f)%s, %s%s the bar of %.0f %%%s%s%s\n",
		  colour(t, BOLD), r->train.au, r->train.au_stdev, colour(t, PLAIN),
		  colour(t, r->train.meets && !unfit ? GREEN : RED),
		  !r->train.meets ? "MISSES"
		  : unfit         ? "above"
				  : "meets",
		  bar, colour(t, PLAIN), unfit ? ", but this does not count as a success: " : "",
		  unfit ? unfit : "");
	table_put(t, "samples   %.1f/s (deviation %.1f), %.1f MiB/s at the nominal size\n",
		  r->train.throughput, r->train.throughput_stdev, r->train.io);
	if (r->eval.nr)
		table_put(t, "eval      AU %.2f %%, %.1f samples/s\n", r->eval.au,
			  r->eval.throughput);
}

/* Over all epochs; the time to the first byte is that of the slowest epoch. */
static void table_put_requests(struct table *t, const struct run_result *r)
{
	uint64_t sent = 0, again = 0, throttled = 0;
	double p50 = 0, p99 = 0;

	for (size_t i = 0; i < r->nr_phases; i++) {
		const struct run_result_phase *p = &r->phases[i];

		sent += p->nr_requests;
		again += p->nr_retries;
		throttled += p->nr_throttled;
		p50 = fmax(p50, p->first_byte.p50);
		p99 = fmax(p99, p->first_byte.p99);
	}
	if (sent > 0)
		table_put(
			t,
			"requests  %" PRIu64 " sent, %" PRIu64 " of them again, %" PRIu64
			" throttled; first byte after p50 %.2f ms, p99 %.2f ms in the slowest epoch\n",
			sent, again, throttled, p50 * 1e-3, p99 * 1e-3);
}

int report_table_text(const struct run_result *r, bool in_colour, char **ret_text,
		      struct shoal_err *err)
{
	struct table t = { .buf.max = TEXT_MAX, .colour = in_colour };

	table_put(&t,
		  "%s%s%s: %" PRIu64 " accelerator%s on %" PRIu64 " rank%s, %" PRIu64
		  " file%s, batch %" PRIu64 "\n",
		  colour(&t, BOLD), r->workload->name, colour(&t, PLAIN), r->nr_accelerators,
		  plural(r->nr_accelerators), r->nr_ranks, plural(r->nr_ranks), r->nr_files,
		  plural(r->nr_files), r->workload->reader.batch);
	table_put(&t,
		  "data      %.500s (%.900s)\nreading   %s (%s), %" PRIu64
		  " in flight per rank, %" PRIu64 " batches ahead, order %s, seed %" PRIu64
		  "\nfirst     batch after %.2f s\n\n",
		  r->data, r->catalog, r->engine, r->engine_detail, r->in_flight, r->prefetch,
		  r->order, r->seed, r->seconds_to_first_batch);
	table_put(&t, "%-8s %9s %9s %7s %11s %9s %6s %9s %9s %8s %7s %7s  %s\n", "epoch", "steps",
		  "seconds", "AU %", "samples/s", "MB/s", "wait %", "p50 ms", "p99 ms", "cached",
		  "depth", "CPU us", "audit");
	for (size_t i = 0; i < r->nr_phases; i++)
		table_put_phase(&t, &r->phases[i], r->direct);
	table_put(&t, "\n");
	table_put_sums(&t, r);
	table_put_time(&t, r);
	table_put_limit(&t, r);
	table_put_slowest(&t, r);
	table_put_requests(&t, r);
	table_put_memory(&t, r);
	table_put_errors(&t, r);
	table_put_left_over(&t, r);
	table_put_notes(&t, r);
	buf_u8(&t.buf, 0);
	if (t.buf.rc < 0) {
		buf_release(&t.buf);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret_text = (char *)t.buf.data;
	return 0;
}
