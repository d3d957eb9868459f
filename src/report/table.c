/* The table at the end of a run. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/text_table.h"
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

/* ---- A line per phase ---- */

/* Left out first is what explains, last what counts. */
static const struct text_column table_columns[] = {
	{ "epoch", -8, 0 },     { "steps", 9, 6 },  { "seconds", 9, 5 }, { "AU %", 7, 0 },
	{ "samples/s", 11, 1 }, { "MB/s", 9, 2 },   { "wait %", 6, 4 },  { "p50 ms", 9, 7 },
	{ "p99 ms", 9, 3 },     { "cached", 8, 1 }, { "depth", 7, 8 },   { "CPU us", 7, 9 },
	{ "audit", -5, 0 },
};

static void table_fill_phase(const void *self, size_t row, char (*cell)[TEXT_TABLE_CELL])
{
	const struct run_result *r = self;
	const struct run_result_phase *p = &r->phases[row];
	double rate = p->block_seconds > 0 ? (double)p->bytes_delivered / p->block_seconds : 0;

	snprintf(cell[0], TEXT_TABLE_CELL, "%" PRIu32 "%s%s", p->epoch, p->eval ? " eval" : "",
		 p->partial ? "*" : "");
	snprintf(cell[1], TEXT_TABLE_CELL, "%" PRIu64, p->steps);
	snprintf(cell[2], TEXT_TABLE_CELL, "%.1f", p->seconds);
	snprintf(cell[3], TEXT_TABLE_CELL, "%.2f", p->figures.au);
	snprintf(cell[4], TEXT_TABLE_CELL, "%.0f", p->figures.throughput);
	snprintf(cell[5], TEXT_TABLE_CELL, "%.1f", rate * 1e-6);
	snprintf(cell[6], TEXT_TABLE_CELL, "%.1f", 100.0 * p->wait_share);
	snprintf(cell[7], TEXT_TABLE_CELL, "%.2f", p->latency.p50 * 1e-3);
	snprintf(cell[8], TEXT_TABLE_CELL, "%.2f", p->latency.p99 * 1e-3);
	if (r->direct) /* whatever the page cache held, it was not used */
		snprintf(cell[9], TEXT_TABLE_CELL, "direct");
	else if (isnan(p->cached_share))
		snprintf(cell[9], TEXT_TABLE_CELL, "-");
	else
		snprintf(cell[9], TEXT_TABLE_CELL, "%.1f %%", 100.0 * p->cached_share);
	snprintf(cell[10], TEXT_TABLE_CELL, "%.1f", p->queue_depth);
	snprintf(cell[11], TEXT_TABLE_CELL, "%.1f", p->cpu_us);
	snprintf(cell[12], TEXT_TABLE_CELL, "%s", proof_words(p));
}

static void table_put_phases(struct table *t, const struct run_result *r, size_t window)
{
	text_table_put(&(struct text_table){ .columns = table_columns,
					     .nr_columns = ARRAY_LEN(table_columns),
					     .nr_rows = r->nr_phases,
					     .fill = table_fill_phase,
					     .self = r },
		       window, &t->buf);
}

/* ---- Lines that say more ---- */

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
			  "time      %s: compute %.1f %%, woken late %.1f %%, waiting for data "
			  "%.1f %%, %s %.1f %%\n",
			  time_in_words(all).text, 100 * sum.planned / all, 100 * sum.late / all,
			  100 * sum.data / all,
			  r->nr_accelerators > 1 ? "waiting for other ranks" : "other",
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
		  "slowest   sample %" PRIu64 " '%s' took %s on rank %" PRIu64 " in epoch %" PRIu32
		  "; rank %" PRIu64 " waited most for batches there: %s\n",
		  worst->slowest.sample, worst->slowest.name,
		  time_in_words(worst->slowest.sample_seconds).text, worst->slowest.sample_rank,
		  worst->epoch, worst->slowest.rank, time_in_words(worst->slowest.seconds).text);
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
		  bar, colour(t, PLAIN),
		  !unfit           ? ""
		  : r->train.meets ? ", but this does not count as a success: "
				   : "; besides, ",
		  unfit ? unfit : "");
	table_put(t, "samples   %s/s (deviation %.3g), %s/s at the nominal size\n",
		  rate_in_words(r->train.throughput).text, r->train.throughput_stdev,
		  size_in_words((uint64_t)(r->train.io * 1048576)).text);
	if (r->eval.nr)
		table_put(t, "eval      AU %.2f %%, %s samples/s\n", r->eval.au,
			  rate_in_words(r->eval.throughput).text);
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
			"requests  %s sent, %s of them retries, %s throttled; first byte after p50 %s, "
			"p99 %s in the slowest epoch\n",
			count_in_words(sent).text, count_in_words(again).text,
			count_in_words(throttled).text, time_in_words(p50 * 1e-6).text,
			time_in_words(p99 * 1e-6).text);
}

int report_table_text(const struct run_result *r, bool in_colour, size_t window, char **ret_text,
		      struct shoal_err *err)
{
	struct table t = { .buf.max = TEXT_MAX, .colour = in_colour };

	table_put(&t,
		  "%s%s%s: %" PRIu64 " accelerator%s on %" PRIu64
		  " rank%s, %s file%s, batch %" PRIu64 "\n",
		  colour(&t, BOLD), r->workload->name, colour(&t, PLAIN), r->nr_accelerators,
		  plural(r->nr_accelerators), r->nr_ranks, plural(r->nr_ranks),
		  count_in_words(r->nr_files).text, plural(r->nr_files), r->workload->reader.batch);
	table_put(&t,
		  "data      %.500s (%.900s)\nreading   %s (%s), %" PRIu64
		  " in flight per rank, %" PRIu64 " batches ahead, order %s, seed %" PRIu64
		  "\nfirst     batch after %s\n\n",
		  r->data, r->catalog, r->engine, r->engine_detail, r->in_flight, r->prefetch,
		  r->order, r->seed, time_in_words(r->seconds_to_first_batch).text);
	table_put_phases(&t, r, window);
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
