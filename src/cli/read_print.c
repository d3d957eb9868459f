#include "cli/read_print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "cli/cli.h"

static double samples_rate(const struct read_figures *f)
{
	return f->seconds > 0 ? (double)f->samples / f->seconds : 0;
}

static double bytes_rate(const struct read_figures *f)
{
	return f->seconds > 0 ? (double)f->bytes / f->seconds : 0;
}

/* ---- The spread of several measurements ---- */

struct rate_spread {
	double median, lowest, highest;
};

static int compare_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Of the measurements that were not interrupted; false if there is none. */
static bool find_spread(const struct read_outcome *o, double (*rate)(const struct read_figures *f),
			struct rate_spread *ret)
{
	double *all = calloc((size_t)o->nr_each + 1, sizeof(*all)); /* 8 bytes per measurement */
	size_t nr = 0;

	for (uint64_t i = 0; all && i < o->nr_each; i++)
		if (!o->each[i].interrupted)
			all[nr++] = rate(&o->each[i]);
	if (nr > 0) {
		qsort(all, nr, sizeof(*all), compare_rates);
		*ret = (struct rate_spread){ (all[(nr - 1) / 2] + all[nr / 2]) / 2, all[0],
					     all[nr - 1] };
	}
	free(all);
	return nr > 0;
}

/* ---- JSON ---- */

static double us_at(const struct histogram *h, double share)
{
	return (double)histogram_at(h, share) * 1e-3;
}

/* Percentiles, or null if there were none. */
static void print_latency(struct json *j, const char *name, const struct histogram *h)
{
	if (us_at(h, 1) <= 0) {
		json_null(j, name);
		return;
	}
	json_open_object(j, name);
	json_real(j, "p50", us_at(h, 0.5), 6);
	json_real(j, "p90", us_at(h, 0.9), 6);
	json_real(j, "p99", us_at(h, 0.99), 6);
	json_real(j, "p99.9", us_at(h, 0.999), 6);
	json_real(j, "max", us_at(h, 1), 6);
	json_close_object(j);
}

/* Requests, if there were any. */
static void print_remote(struct json *j, const struct load_remote *r)
{
	if (r->nr_requests == 0)
		return;
	json_open_object(j, "requests");
	json_u64(j, "sent", r->nr_requests);
	json_u64(j, "retries", r->nr_retries);
	json_u64(j, "throttled", r->nr_throttled);
	json_u64(j, "bytes", r->bytes);
	json_real(j, "event_loops", (double)r->loops / (double)r->nr_requests, 3);
	json_u64(j, "by_other_threads", r->nr_other);
	print_latency(j, "first_byte_us", &r->first_ns);
	print_latency(j, "total_us", &r->total_ns);
	json_close_object(j);
}

static void print_audit(struct json *j, const struct read_outcome *o)
{
	const struct load_tally *t = &o->sum;

	json_open_object(j, "audit");
	json_bool(j, "exactly_once", o->once);
	json_bool(j, "whole", o->whole);
	json_format(j, "order_digest", "%016" PRIx64 "%016" PRIx64, t->got[2], t->got[3]);
	json_u64(j, "bytes_asked", t->bytes_asked);
	json_u64(j, "bytes_delivered", t->bytes_delivered);
	json_u64(j, "bytes_read", t->bytes_read);
	json_u64(j, "reads", t->nr_reads);
	json_u64(j, "opens", t->nr_opens);
	json_real(j, "read_amplification",
		  t->bytes_delivered ? (double)t->bytes_read / (double)t->bytes_delivered
				     : (double)NAN,
		  6);
	if (o->device_told)
		json_u64(j, "bytes_from_device", t->bytes_device);
	else
		json_null(j, "bytes_from_device");
	/* NAN: no samples were looked up in the page cache. */
	json_real(j, "cached_share",
		  t->nr_pages ? (double)t->nr_cached / (double)t->nr_pages : (double)NAN, 6);
	json_close_object(j);
}

static void print_figures(struct json *j, const struct read_figures *f)
{
	json_u64(j, "samples", f->samples);
	json_u64(j, "bytes", f->bytes);
	json_real(j, "seconds", f->seconds, 9);
	json_real(j, "samples_per_second", samples_rate(f), 6);
	json_real(j, "bytes_per_second", bytes_rate(f), 6);
	json_u64(j, "epochs", f->epochs);
	json_bool(j, "interrupted", f->interrupted);
}

/* What one repeat has of its own. */
static void print_own(struct json *j, const struct read_figures *f)
{
	json_open_object(j, "latency_us");
	json_real(j, "p50", f->p50_us, 6);
	json_real(j, "p99", f->p99_us, 6);
	json_close_object(j);
	json_real(j, "cpu_us_per_sample", f->cpu_us, 6);
	json_real(j, "cached_share", f->cached_share, 6);
}

static void print_spread(struct json *j, const char *name, const struct read_outcome *o,
			 double (*rate)(const struct read_figures *f))
{
	struct rate_spread s;

	if (!find_spread(o, rate, &s)) {
		json_null(j, name);
		return;
	}
	json_open_object(j, name);
	json_real(j, "median", s.median, 6);
	json_real(j, "lowest", s.lowest, 6);
	json_real(j, "highest", s.highest, 6);
	json_close_object(j);
}

static void print_repeats(struct json *j, const struct read_outcome *o)
{
	json_open_array(j, "repeats");
	for (uint64_t i = 0; i < o->nr_each; i++) {
		json_open_object(j, NULL);
		print_figures(j, &o->each[i]);
		print_own(j, &o->each[i]);
		json_close_object(j);
	}
	json_close_array(j);
	json_open_object(j, "spread");
	print_spread(j, "samples_per_second", o, samples_rate);
	print_spread(j, "bytes_per_second", o, bytes_rate);
	json_close_object(j);
}

void read_put_settings(struct json *j, const char *lines)
{
	json_open_object(j, "settings");
	for (const char *at = lines; *at; at += strcspn(at, "\n"), at += *at == '\n') {
		size_t len = strcspn(at, "\n"), key = strcspn(at, ":");
		char name[64], value[4096];

		if (key + 2 > len)
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)key, at);
		snprintf(value, sizeof(value), "%.*s", (int)(len - key - 2), at + key + 2);
		json_string(j, name, value);
	}
	json_close_object(j);
}

void read_put_json(struct json *j, const struct read_plan *plan, const struct read_outcome *o,
		   int nr_ranks)
{
	const struct load_tally *t = &o->sum;

	json_u64(j, "epoch", plan->epoch);
	json_u64(j, "ranks", (uint64_t)nr_ranks);
	print_figures(j, &o->all);
	json_real(j, "warm_up_seconds", (double)plan->warm_up_ms * 1e-3, 9);
	json_real(j, "first_batch_seconds", o->first, 9);
	json_u64(j, "errors", t->errors);
	json_string(j, "engine", o->stats.engine);
	json_string(j, "engine_detail", o->stats.engine_detail);
	json_u64(j, "pool_bytes", t->pool_bytes);
	json_real(j, "cpu_us_per_sample",
		  t->samples ? (double)t->cpu_ns * 1e-3 / (double)t->samples : (double)NAN, 6);
	print_latency(j, "latency_us", &t->latency);
	print_latency(j, "open_us", &t->open);
	print_latency(j, "read_us", &t->read);
	print_remote(j, &t->remote);
	print_audit(j, o);
	print_repeats(j, o);
}

void read_print_json(const struct read_plan *plan, const struct read_outcome *o, int nr_ranks)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_u64(&j, "cores", plan->cores);
	read_put_json(&j, plan, o, nr_ranks);
	read_put_settings(&j, plan->settings ? plan->settings : "");
	json_close_object(&j);
}

/* ---- Text ---- */

static struct number_words time_at(const struct histogram *h, double share)
{
	return time_in_words((double)histogram_at(h, share) * 1e-9);
}

/* "epoch 0", "epochs 0 to 4", "epoch 0, 3 times". */
static void print_what(FILE *out, const struct read_plan *plan, const struct read_outcome *o)
{
	if (o->all.epochs > 1)
		fprintf(out, "epochs %" PRIu64 " to %" PRIu64, plan->epoch,
			plan->epoch + o->all.epochs - 1);
	else
		fprintf(out, "epoch %" PRIu64, plan->epoch);
	if (plan->repeats > 1)
		fprintf(out, ", %" PRIu64 " time%s", o->nr_each, plural(o->nr_each));
}

static void read_put_figures(FILE *out, const struct read_figures *f, const char *by)
{
	fprintf(out, ": %s sample%s, %s in %s%s: %s samples/s, %s/s%s\n",
		count_in_words(f->samples).text, plural(f->samples), size_in_words(f->bytes).text,
		time_in_words(f->seconds).text, by, rate_in_words(samples_rate(f)).text,
		size_in_words((uint64_t)bytes_rate(f)).text,
		f->interrupted && !*by ? " (interrupted)" : "");
}

static void put_repeats(FILE *out, const struct read_outcome *o)
{
	struct rate_spread samples, bytes;

	for (uint64_t i = 0; i < o->nr_each; i++) {
		fprintf(out, "repeat %" PRIu64, i + 1);
		read_put_figures(out, &o->each[i], "");
	}
	if (find_spread(o, samples_rate, &samples) && find_spread(o, bytes_rate, &bytes))
		fprintf(out,
			"spread    samples/s: median %s, lowest %s, highest %s; bytes/s: median "
			"%s, lowest %s, highest %s\n",
			rate_in_words(samples.median).text, rate_in_words(samples.lowest).text,
			rate_in_words(samples.highest).text,
			size_in_words((uint64_t)bytes.median).text,
			size_in_words((uint64_t)bytes.lowest).text,
			size_in_words((uint64_t)bytes.highest).text);
}

/* For a part of an epoch, only that part is proven. */
static void put_proof(FILE *out, const struct read_plan *plan, const struct read_outcome *o)
{
	bool several = o->all.epochs > 1 || o->nr_each > 1;

	fprintf(out, "audit     ");
	if (o->once && !o->whole && !several)
		fprintf(out, "%s of %s sample%s, each exactly once",
			count_in_words(o->sum.samples).text,
			count_in_words(plan->epoch_samples).text, plural(plan->epoch_samples));
	else if (o->once && !o->whole)
		fprintf(out,
			"%s sample%s of epochs that were not read whole, each exactly once "
			"per epoch",
			count_in_words(o->sum.samples).text, plural(o->sum.samples));
	else
		fprintf(out, "%severy sample exactly once%s", o->once ? "" : "NOT ",
			several ? " per epoch" : "");
	fprintf(out, "; order %016" PRIx64 "%016" PRIx64 "\n", o->sum.got[2], o->sum.got[3]);
}

static void put_costs(FILE *out, const struct read_outcome *o)
{
	const struct load_tally *t = &o->sum;

	if (t->errors > 0)
		fprintf(out, "errors    %s sample%s could not be read, and %s left out\n",
			count_in_words(t->errors).text, plural(t->errors),
			t->errors == 1 ? "was" : "were");
	fprintf(out, "engine    %s (%s), %s of buffers\n", o->stats.engine, o->stats.engine_detail,
		size_in_words(t->pool_bytes).text);
	if (t->samples > 0)
		fprintf(out, "latency   p50 %s, p90 %s, p99 %s, max %s; %s of CPU per sample\n",
			time_at(&t->latency, 0.5).text, time_at(&t->latency, 0.9).text,
			time_at(&t->latency, 0.99).text, time_at(&t->latency, 1).text,
			time_in_words((double)t->cpu_ns * 1e-9 / (double)t->samples).text);
	if (t->remote.nr_requests > 0)
		fprintf(out,
			"requests  %s sent, %s of them retries, %s throttled; first byte after p50 "
			"%s, p99 %s\n",
			count_in_words(t->remote.nr_requests).text,
			count_in_words(t->remote.nr_retries).text,
			count_in_words(t->remote.nr_throttled).text,
			time_at(&t->remote.first_ns, 0.5).text,
			time_at(&t->remote.first_ns, 0.99).text);
}

static void put_all(FILE *out, const struct read_plan *plan, const struct read_outcome *o,
		    int nr_ranks)
{
	const struct load_tally *t = &o->sum;
	char by[32];

	snprintf(by, sizeof(by), " by %d rank%s", nr_ranks, plural((uint64_t)nr_ranks));
	print_what(out, plan, o);
	read_put_figures(out, &o->all, by);
	if (plan->repeats > 1)
		put_repeats(out, o);
	if (plan->warm_up_ms > 0)
		fprintf(out, "warm-up   %g s%s, not counted\n", (double)plan->warm_up_ms * 1e-3,
			plan->repeats > 1 ? " each time" : "");
	put_costs(out, o);
	put_proof(out, plan, o);
	fprintf(out, "bytes     %s asked, %s delivered", size_in_words(t->bytes_asked).text,
		size_in_words(t->bytes_delivered).text);
	if (t->bytes_delivered < t->bytes_asked)
		fprintf(out, " (%s less)", size_in_words(t->bytes_asked - t->bytes_delivered).text);
	if (t->bytes_delivered > t->bytes_asked)
		fprintf(out, " (%s more)", size_in_words(t->bytes_delivered - t->bytes_asked).text);
	if (o->device_told)
		fprintf(out, ", %s from the device", size_in_words(t->bytes_device).text);
	if (t->nr_pages)
		fprintf(out, "; %.1f %% cached before",
			100.0 * (double)t->nr_cached / (double)t->nr_pages);
	fputc('\n', out);
	if (t->nr_reads > 0 && t->nr_reads < t->samples)
		fprintf(out,
			"reads     %s for %s samples, %s open%s; %.2f bytes read per byte "
			"delivered\n",
			count_in_words(t->nr_reads).text, count_in_words(t->samples).text,
			count_in_words(t->nr_opens).text, plural(t->nr_opens),
			t->bytes_delivered ? (double)t->bytes_read / (double)t->bytes_delivered
					   : 0.0);
	if (plan->drop)
		fprintf(out, "dropped   the pages of %s file%s before; %s kept some\n",
			count_in_words(t->nr_dropped).text, plural(t->nr_dropped),
			count_in_words(t->nr_kept).text);
}

void read_print_text(const struct read_plan *plan, const struct read_outcome *o, int nr_ranks)
{
	struct cli_text text;
	FILE *out = cli_text_open(&text);

	if (!out)
		return;
	put_all(out, plan, o, nr_ranks);
	cli_text_print(&text, out, nr_ranks == 1, CLI_LABEL_COLUMNS);
}
