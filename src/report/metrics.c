/* What a command at work has done, in the text format of OpenMetrics 1.0. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "report/live_private.h"

/* More ranks are not listed one by one: a series each in the memory of Prometheus. */
#define RANKS_NAMED 1024u

static void put_metric(struct buf *to, const char *fmt, ...) PRINTF_LIKE(2, 3);

static void put_metric(struct buf *to, const char *fmt, ...)
{
	char line[512];
	va_list args;
	int len;

	va_start(args, fmt);
	len = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	buf_append(to, line, u64_min((uint64_t)len, sizeof(line) - 1));
}

/* The unit is the end of the name. */
static void begin_family(struct buf *to, const char *name, const char *type, const char *unit,
			 const char *help)
{
	put_metric(to, "# TYPE %s %s\n", name, type);
	if (*unit)
		put_metric(to, "# UNIT %s %s\n", name, unit);
	put_metric(to, "# HELP %s %s\n", name, help);
}

static void put_counter(struct buf *to, const char *name, uint64_t value, const char *help)
{
	begin_family(to, name, "counter", strstr(name, "_bytes") ? "bytes" : "", help);
	put_metric(to, "%s_total %" PRIu64 "\n", name, value);
}

static void put_seconds(struct buf *to, const char *name, uint64_t ns, const char *help)
{
	begin_family(to, name, "counter", "seconds", help);
	put_metric(to, "%s_total %.9f\n", name, (double)ns * 1e-9);
}

/* Nothing if it is not known. */
static void put_gauge(struct buf *to, const char *name, const char *unit, double value,
		      const char *help)
{
	begin_family(to, name, "gauge", unit, help);
	if (isfinite(value))
		put_metric(to, "%s %.15g\n", name, value);
}

/* A label's value: quotes and backslashes are escaped; a control character, and a byte that is not
 * UTF-8, become '?'. */
static void metrics_label(struct buf *to, const char *text)
{
	for (size_t len; *text; text += len) {
		len = utf8_len(text, strlen(text));
		if (*text == '"' || *text == '\\')
			buf_append(to, "\\", 1);
		if (len == 0 || (unsigned char)*text < 0x20 || *text == 0x7f)
			buf_append(to, "?", len = 1);
		else
			buf_append(to, text, len);
	}
}

/* Place i counts up to 2^(i/2) us; the last one all that are longer. */
static void put_latencies(struct buf *to, const struct live_sums *s)
{
	static const char name[] = "shoal_sample_latency_seconds";
	uint64_t before = 0;

	begin_family(to, name, "histogram", "seconds",
		     "Time from the request of a sample until it was read.");
	for (unsigned i = 0; i < SERIES_PLACES; i++) {
		unsigned power = i / 2;

		before += s->count[i];
		/* One per power of two, of those that a figure can be in. */
		if (i % 2 == 0 && i <= 52)
			put_metric(to, "%s_bucket{le=\"%.10g\"} %" PRIu64 "\n", name,
				   exp2(power) * 1e-6, before);
	}
	put_metric(to, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, before);
	put_metric(to, "%s_count %" PRIu64 "\n", name, before);
	put_metric(to, "%s_sum %.9f\n", name, (double)s->latency * 1e-9);
}

static void put_info(struct buf *to, const struct live *l)
{
	begin_family(to, "shoal_command", "info", "", "The command at work, and its version.");
	put_metric(to, "shoal_command_info{command=\"%s\",version=\"%s\",name=\"", l->head.command,
		   shoal_version());
	metrics_label(to, l->head.name);
	put_metric(to, "\"} 1\n");
	put_gauge(to, "shoal_started_timestamp_seconds", "seconds", (double)l->started * 1e-9,
		  "When the command began, since 1970.");
	put_gauge(to, "shoal_ranks", "", (double)l->head.total, "Processes of the command.");
}

static void put_progress(struct buf *to, const struct live *l)
{
	const struct live_now *n = &l->now;

	put_gauge(to, "shoal_progress_ratio", "ratio", n->share, "Share of the work that is done.");
	put_gauge(to, "shoal_eta_seconds", "seconds", n->seconds_left,
		  "Time until the end, at the pace so far.");
	put_gauge(to, "shoal_idle_seconds", "seconds", n->idle,
		  "Time since the last step ended, or since anything was done.");
	if (n->nr_epochs > 0) {
		put_gauge(to, "shoal_epoch", "", (double)n->epoch, "The current epoch, from 1.");
		put_gauge(to, "shoal_epochs", "", (double)n->nr_epochs, "Epochs of the run.");
		put_gauge(to, "shoal_epoch_steps", "", (double)n->nr_steps,
			  "Steps of the current epoch.");
		put_gauge(to, "shoal_epoch_steps_done", "", (double)n->step,
			  "Steps of the current epoch that are done.");
		put_gauge(to, "shoal_accelerator_utilization_ratio", "ratio", n->au / 100,
			  "Accelerator utilization (AU) of the current epoch so far.");
	}
}

static void put_work(struct buf *to, const struct live *l)
{
	const struct live_sums *s = &l->sum;

	put_counter(to, "shoal_samples", s->samples, "Samples delivered, or files written.");
	put_counter(to, "shoal_sample_bytes", s->bytes, "Bytes of these samples.");
	put_counter(to, "shoal_sample_errors", s->errors, "Samples that could not be read.");
	put_counter(to, "shoal_names", s->names, "Names listed.");
	put_counter(to, "shoal_steps", s->steps, "Steps taken by each rank.");
	put_seconds(to, "shoal_wait_seconds", s->load,
		    "Time that accelerators waited for batches, all together.");
	put_seconds(to, "shoal_compute_seconds", s->compute,
		    "Time that accelerators computed, all together.");
	put_seconds(to, "shoal_cpu_seconds", s->cpu, "CPU time of the command's processes.");
	put_counter(to, "shoal_requests", s->requests, "Requests to a remote store.");
	put_counter(to, "shoal_retries", s->retries, "Requests that were retried.");
	put_counter(to, "shoal_throttled", s->throttled, "Answers that said to slow down.");
	put_counter(to, "shoal_dropped_records", l->nr_lost,
		    "Reports of ranks that were left out of these figures.");
}

static void put_ranks(struct buf *to, const struct live *l)
{
	unsigned nr = l->head.nr_ranks < RANKS_NAMED ? l->head.nr_ranks : RANKS_NAMED;
	uint64_t memory = 0;

	for (unsigned i = 0; i < l->head.nr_ranks; i++)
		memory += l->rank[i].memory;
	put_gauge(to, "shoal_memory_bytes", "bytes", (double)memory,
		  "Resident memory of the command's processes.");
	begin_family(to, "shoal_rank_samples", "counter", "", "Samples delivered to a rank.");
	for (unsigned i = 0; i < nr; i++)
		put_metric(to, "shoal_rank_samples_total{rank=\"%u\"} %" PRIu64 "\n", i,
			   l->rank[i].samples);
	begin_family(to, "shoal_rank_wait_seconds", "counter", "seconds",
		     "Time that the accelerators of a rank waited for batches.");
	for (unsigned i = 0; i < nr; i++)
		put_metric(to, "shoal_rank_wait_seconds_total{rank=\"%u\"} %.9f\n", i,
			   (double)l->rank[i].load * 1e-9);
}

void live_put_metrics(struct live *l, struct buf *to)
{
	live_tick(l);
	put_info(to, l);
	put_progress(to, l);
	put_work(to, l);
	put_latencies(to, &l->sum);
	put_ranks(to, l);
	buf_text(to, "# EOF\n");
}
