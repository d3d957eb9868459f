/* summary.json. Field names up to "metric" are DLIO's. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "report/host.h"
#include "report/report.h"
#include "report/write.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

/* Something could not be put in: a summary that lacks it must not be written. */
static __thread bool lost;

/* Takes @value over. */
static void set(json_t *object, const char *key, json_t *value)
{
	lost = json_object_set_new(object, key, value) < 0 || lost;
}

static void add(json_t *list, json_t *value)
{
	lost = json_array_append_new(list, value) < 0 || lost;
}

static json_t *number(uint64_t v)
{
	return json_integer((json_int_t)v);
}

static json_t *real(double v)
{
	return json_real(isfinite(v) ? v : 0);
}

/* Bytes from elsewhere may not be UTF-8, which jansson refuses. */
static json_t *text(const char *s)
{
	json_t *t = json_string(s ? s : "");

	return t ? t : json_string("(not UTF-8)");
}

static json_t *time_of(uint64_t ns)
{
	char buf[REPORT_TIME_BYTES];

	report_time(ns, buf);
	return json_string(buf);
}

/* ---- What DLIO has ---- */

static json_t *over_phases(const struct bench_result *r, bool eval, bool au)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->nr_phases; i++) {
		const struct bench_figures *f = &r->phases[i].figures;

		if ((r->phases[i].eval != 0) == eval && bench_result_counts(r, i))
			add(list, real(au ? f->au : f->throughput));
	}
	return list;
}

/* Whoever reads only DLIO's fields must not take part of a run, or one with gaps, for a success. */
static bool is_success(const struct bench_result *r, const struct bench_summary *s)
{
	bool whole = !r->partial;

	for (size_t i = 0; i < r->nr_phases; i++)
		whole = whole && !r->phases[i].partial && r->phases[i].errors == 0 &&
			r->phases[i].proof != BENCH_WRONG;
	return whole && s->meets;
}

static void set_metric(json_t *metric, const struct bench_result *r, bool eval)
{
	const struct bench_summary *s = eval ? &r->eval : &r->train;
	const char *kind = eval ? "eval" : "train";
	char key[64];

#define KEY(words) (snprintf(key, sizeof(key), "%s_" words, kind), key)
	set(metric, KEY("au_percentage"), over_phases(r, eval, true));
	set(metric, KEY("au_mean_percentage"), real(s->au));
	set(metric, KEY("au_meet_expectation"), json_string(is_success(r, s) ? "success" : "fail"));
	set(metric, KEY("au_stdev_percentage"), real(s->au_stdev));
	set(metric, KEY("throughput_samples_per_second"), over_phases(r, eval, false));
	set(metric, KEY("throughput_mean_samples_per_second"), real(s->throughput));
	set(metric, KEY("throughput_stdev_samples_per_second"), real(s->throughput_stdev));
	set(metric, KEY("io_mean_MB_per_second"), real(s->io));
	set(metric, KEY("io_stdev_MB_per_second"), real(s->io_stdev));
#undef KEY
}

static json_t *metric_of(const struct bench_result *r)
{
	json_t *metric = json_object();

	set_metric(metric, r, false);
	if (r->eval.nr > 0)
		set_metric(metric, r, true);
	return metric;
}

static void set_hosts(json_t *top, const struct bench_result *r)
{
	double data = r->bytes / GIB;
	json_t *cpus = json_array(), *memory = json_array(), *caching = json_array();

	data /= r->nr_nodes ? (double)r->nr_nodes : 1;
	for (size_t i = 0; i < r->nr_nodes; i++) {
		double gib = (double)r->nodes[i].memory_bytes / GIB;

		add(cpus, number(r->nodes[i].nr_cpus));
		add(memory, real(gib));
		add(caching, number(gib > data));
	}
	set(top, "num_accelerators", number(r->nr_accelerators));
	set(top, "num_hosts", number(r->nr_nodes));
	set(top, "hostname", text(r->nr_nodes ? r->nodes[0].host : ""));
	set(top, "host_memory_GB", memory);
	set(top, "host_cpu_count", cpus);
	set(top, "host_processor_name", text(report_processor_name()));
	set(top, "potential_caching", caching);
	set(top, "data_size_per_host_GB", real(data));
	set(top, "host_cpuinfo", report_proc_json("/proc/cpuinfo"));
	set(top, "host_meminfo", report_proc_json("/proc/meminfo"));
}

/* ---- What it has not ---- */

static json_t *latency_json(const struct bench_latency *l)
{
	if (!l->known)
		return json_null();
	return json_pack("{s:f,s:f,s:f,s:f,s:f}", "p50", l->p50, "p90", l->p90, "p99", l->p99,
			 "p99.9", l->p999, "max", l->max);
}

static json_t *audit_json(const struct bench_phase *p)
{
	json_t *audit = json_object();
	char digest[40];

	snprintf(digest, sizeof(digest), "%016" PRIx64 "%016" PRIx64, p->order_digest[0],
		 p->order_digest[1]);
	set(audit, "exactly_once",
	    p->proof == BENCH_NOT_PROVEN ? json_null() : json_boolean(p->proof == BENCH_PROVEN));
	set(audit, "order_digest", json_string(digest));
	set(audit, "samples", number(p->samples));
	set(audit, "errors", number(p->errors));
	set(audit, "bytes_asked", number(p->bytes_asked));
	set(audit, "bytes_delivered", number(p->bytes_delivered));
	set(audit, "bytes_from_device", p->device_told ? number(p->bytes_device) : json_null());
	set(audit, "cached_share",
	    p->nr_pages ? real((double)p->nr_cached / (double)p->nr_pages) : json_null());
	set(audit, "files_dropped_from_cache", number(p->nr_dropped));
	set(audit, "files_kept_in_cache", number(p->nr_kept));
	return audit;
}

/* null where nothing was asked of a server. */
static json_t *requests_json(const struct bench_phase *p)
{
	json_t *o;

	if (p->nr_requests == 0)
		return json_null();
	o = json_object();
	set(o, "sent", number(p->nr_requests));
	set(o, "retries", number(p->nr_retries));
	set(o, "throttled", number(p->nr_throttled));
	set(o, "bytes", number(p->bytes_remote));
	set(o, "first_byte_us", latency_json(&p->first_byte));
	set(o, "total_us", latency_json(&p->request));
	return o;
}

static json_t *phase_json(const struct bench_phase *p)
{
	json_t *o = json_object(), *slowest = json_object(), *latency = json_object();

	set(o, "epoch", number(p->epoch));
	set(o, "kind", json_string(p->eval ? "eval" : "train"));
	set(o, "partial", json_boolean(p->partial));
	set(o, "steps", number(p->steps));
	set(o, "steps_due", number(p->steps_due));
	set(o, "steps_before_resume", number(p->steps_before));
	set(o, "start", time_of(p->started));
	set(o, "end", time_of(p->ended));
	set(o, "seconds", real(p->seconds));
	set(o, "au_percentage", real(p->figures.au));
	set(o, "au_planned_percentage", real(p->figures.au_planned));
	set(o, "throughput_samples_per_second", real(p->figures.throughput));
	set(o, "measured_seconds", real(p->block_seconds));
	set(o, "measured_bytes_per_second",
	    real(p->block_seconds > 0 ? (double)p->bytes_delivered / p->block_seconds : 0));
	set(latency, "total", latency_json(&p->latency));
	set(latency, "open", latency_json(&p->open));
	set(latency, "read_and_close", latency_json(&p->read));
	set(o, "latency_us", latency);
	set(o, "requests", requests_json(p));
	set(o, "queue_depth", real(p->queue_depth));
	set(o, "cpu_us_per_sample", real(p->cpu_us));
	set(o, "wait_share", real(p->wait_share));
	set(slowest, "rank", number(p->slowest.rank));
	set(slowest, "rank_wait_seconds", real(p->slowest.seconds));
	set(slowest, "sample", number(p->slowest.sample));
	set(slowest, "sample_file", text(p->slowest.name));
	set(slowest, "sample_rank", number(p->slowest.sample_rank));
	set(slowest, "sample_seconds", real(p->slowest.sample_seconds));
	set(o, "slowest", slowest);
	set(o, "audit", audit_json(p));
	return o;
}

static json_t *nodes_json(const struct bench_result *r)
{
	json_t *list = json_array();

	for (size_t i = 0; i < r->nr_nodes; i++) {
		const struct bench_node *n = &r->nodes[i];
		json_t *o = json_object();

		set(o, "host", text(n->host));
		set(o, "ranks", number(n->nr_ranks));
		set(o, "pss_bytes", number(n->pss_bytes));
		set(o, "pool_bytes", number(n->pool_bytes));
		set(o, "catalog_bytes", number(n->catalog_bytes));
		add(list, o);
	}
	return list;
}

/* Samples that could not be read, and words for the first of them. */
static json_t *errors_json(const struct bench_result *r)
{
	json_t *o = json_object(), *first = json_array();

	for (size_t i = 0; i < r->nr_errors; i++)
		add(first, text(r->errors[i]));
	set(o, "samples", number(bench_result_errors(r)));
	set(o, "first", first);
	return o;
}

static json_t *shoal_json(const struct bench_result *r)
{
	json_t *o = json_object(), *phases = json_array();

	set(o, "version", json_string(shoal_version()));
	set(o, "workload", text(r->workload->name));
	set(o, "partial", json_boolean(r->partial));
	set(o, "why_partial", r->partial ? text(r->why_partial) : json_null());
	set(o, "resumed", number(r->resumed));
	set(o, "ranks", number(r->nr_ranks));
	set(o, "data", text(r->data));
	set(o, "catalog", text(r->catalog));
	set(o, "catalog_digest", json_string(r->digest));
	set(o, "bytes_made_up", json_boolean(r->made_up));
	set(o, "engine", text(r->engine));
	set(o, "engine_detail", text(r->engine_detail));
	set(o, "direct", json_boolean(r->direct));
	set(o, "in_flight_per_rank", number(r->in_flight));
	set(o, "prefetch_batches", number(r->prefetch));
	set(o, "order", json_string(r->order));
	set(o, "seed", json_sprintf("%" PRIu64, r->seed)); /* may be past 2^53 */
	set(o, "seconds_to_first_batch", real(r->seconds_to_first_batch));
	set(o, "au_bar_percentage", real(r->workload->au * 100.0));
	set(o, "memory_per_node", nodes_json(r));
	set(o, "errors", errors_json(r));
	for (size_t i = 0; i < r->nr_phases; i++)
		add(phases, phase_json(&r->phases[i]));
	set(o, "phases", phases);
	return o;
}

int report_summary_text(const struct bench_result *r, char **ret_text, struct shoal_err *err)
{
	json_t *top = json_object();

	lost = false;
	set(top, "start", time_of(r->started));
	set(top, "end", time_of(r->ended));
	set(top, "epochs", number(r->workload->train.epochs));
	set(top, "num_files_train", number(r->nr_files));
	set(top, "num_files_eval", number(r->nr_files_eval));
	set(top, "num_samples_per_file", number(r->workload->dataset.samples_per_file));
	set_hosts(top, r);
	set(top, "metric", metric_of(r));
	set(top, "shoal", shoal_json(r));
	*ret_text = top && !lost ? json_dumps(top, JSON_INDENT(4) | JSON_REAL_PRECISION(12)) : NULL;
	json_decref(top);
	return *ret_text ? 0 : shoal_fail(err, -ENOMEM, "out of memory");
}

int report_summary_write(const struct bench_result *r, const char *folder, struct shoal_err *err)
{
	char *words = NULL;
	int rc = report_summary_text(r, &words, err);

	if (rc == 0)
		rc = report_write_text(folder, "summary.json", words, err);
	free(words);
	return rc;
}

int report_config_write(const struct bench_result *r, const char *folder, struct shoal_err *err)
{
	return report_write_text(folder, "config.yaml", r->workload->yaml, err);
}
