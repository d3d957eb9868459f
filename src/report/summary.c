/* summary.json. The fields up to "metric" are DLIO's. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/host.h"
#include "report/report.h"
#include "report/write.h"
#include "run/folder.h"

#define GIB (1024.0 * 1024.0 * 1024.0)

/* Like DLIO's figures; what is not finite is 0, because its readers do not accept null. */
static void summary_put_real(struct json *j, const char *key, double v)
{
	json_real(j, key, isfinite(v) ? v : 0, 12);
}

static void summary_put_time(struct json *j, const char *key, uint64_t ns)
{
	char buf[REPORT_TIME_BYTES];

	report_time(ns, buf);
	json_string(j, key, buf);
}

/* ---- DLIO's fields ---- */

static void summary_put_phases(struct json *j, const char *key, const struct run_result *r,
			       bool eval, bool au)
{
	json_open_array(j, key);
	for (size_t i = 0; i < r->nr_phases; i++) {
		const struct step_figures *f = &r->phases[i].figures;

		if ((r->phases[i].eval != 0) == eval && run_result_counts(r, i))
			summary_put_real(j, NULL, au ? f->au : f->throughput);
	}
	json_close_array(j);
}

static void summary_put_metric(struct json *j, const struct run_result *r, bool eval)
{
	const struct run_summary *s = eval ? &r->eval : &r->train;
	const char *kind = eval ? "eval" : "train";
	char key[64];

#define KEY(words) (snprintf(key, sizeof(key), "%s_" words, kind), key)
	summary_put_phases(j, KEY("au_percentage"), r, eval, true);
	summary_put_real(j, KEY("au_mean_percentage"), s->au);
	json_string(j, KEY("au_meet_expectation"),
		    s->meets && !run_result_unfit(r) ? "success" : "fail");
	summary_put_real(j, KEY("au_stdev_percentage"), s->au_stdev);
	summary_put_phases(j, KEY("throughput_samples_per_second"), r, eval, false);
	summary_put_real(j, KEY("throughput_mean_samples_per_second"), s->throughput);
	summary_put_real(j, KEY("throughput_stdev_samples_per_second"), s->throughput_stdev);
	summary_put_real(j, KEY("io_mean_MB_per_second"), s->io);
	summary_put_real(j, KEY("io_stdev_MB_per_second"), s->io_stdev);
#undef KEY
}

static void summary_put_hosts(struct json *j, const struct run_result *r)
{
	double data = r->bytes / GIB / (r->nr_nodes ? (double)r->nr_nodes : 1);

	json_u64(j, "num_accelerators", r->nr_accelerators);
	json_u64(j, "num_hosts", r->nr_nodes);
	json_string(j, "hostname", r->nr_nodes ? r->nodes[0].host : "");
	json_open_array(j, "host_memory_GB");
	for (size_t i = 0; i < r->nr_nodes; i++)
		summary_put_real(j, NULL, (double)r->nodes[i].memory_bytes / GIB);
	json_close_array(j);
	json_open_array(j, "host_cpu_count");
	for (size_t i = 0; i < r->nr_nodes; i++)
		json_u64(j, NULL, r->nodes[i].nr_cpus);
	json_close_array(j);
	report_put_processor(j, "host_processor_name");
	json_open_array(j, "potential_caching");
	for (size_t i = 0; i < r->nr_nodes; i++)
		json_u64(j, NULL, (double)r->nodes[i].memory_bytes / GIB > data);
	json_close_array(j);
	summary_put_real(j, "data_size_per_host_GB", data);
	report_put_proc(j, "host_cpuinfo", "/proc/cpuinfo");
	report_put_proc(j, "host_meminfo", "/proc/meminfo");
}

/* ---- What DLIO does not have ---- */

static void summary_put_latency(struct json *j, const char *key, const struct run_latency *l)
{
	if (!l->known) {
		json_null(j, key);
		return;
	}
	json_open_object(j, key);
	summary_put_real(j, "p50", l->p50);
	summary_put_real(j, "p90", l->p90);
	summary_put_real(j, "p99", l->p99);
	summary_put_real(j, "p99.9", l->p999);
	summary_put_real(j, "max", l->max);
	json_close_object(j);
}

static void summary_put_audit(struct json *j, const struct run_result_phase *p, bool device_known)
{
	json_open_object(j, "audit");
	if (p->proof == RUN_NOT_PROVEN)
		json_null(j, "exactly_once");
	else
		json_bool(j, "exactly_once", p->proof == RUN_PROVEN);
	json_u64(j, "covers_from_step", p->audit.from_step);
	json_bool(j, "covers_whole_epoch", p->audit.from_step == 0 && p->steps == p->steps_due);
	json_format(j, "order_digest", "%016" PRIx64 "%016" PRIx64, p->audit.got[2],
		    p->audit.got[3]);
	json_u64(j, "samples", p->audit.samples);
	json_u64(j, "samples_left_over", p->left_over);
	json_u64(j, "errors", p->errors);
	json_u64(j, "bytes_asked", p->audit.bytes_asked);
	json_u64(j, "bytes_delivered", p->audit.bytes_delivered);
	json_u64(j, "bytes_read", p->bytes_read);
	json_u64(j, "reads", p->nr_reads);
	json_u64(j, "opens", p->nr_opens);
	json_real(j, "read_amplification",
		  p->bytes_delivered ? (double)p->bytes_read / (double)p->bytes_delivered
				     : (double)NAN,
		  6);
	if (p->device_told)
		json_u64(j, "bytes_from_device", p->bytes_device);
	else
		json_null(j, "bytes_from_device");
	json_real(j, "cached_share", p->cached_share, 12); /* NAN, so null: unknown */
	json_string(j, "cached_share_from",
		    isnan(p->cached_share) ? NULL
		    : device_known         ? "device bytes"
					   : "samples looked up before");
	json_u64(j, "files_dropped_from_cache", p->nr_dropped);
	json_u64(j, "files_kept_in_cache", p->nr_kept);
	json_close_object(j);
}

/* null if no request was sent to a server. */
static void summary_put_requests(struct json *j, const struct run_result_phase *p)
{
	if (p->nr_requests == 0) {
		json_null(j, "requests");
		return;
	}
	json_open_object(j, "requests");
	json_u64(j, "sent", p->nr_requests);
	json_u64(j, "retries", p->nr_retries);
	json_u64(j, "throttled", p->nr_throttled);
	json_u64(j, "bytes", p->bytes_remote);
	summary_put_latency(j, "first_byte_us", &p->first_byte);
	summary_put_latency(j, "total_us", &p->request);
	json_close_object(j);
}

/* Per accelerator; they add up to the seconds of the phase. */
static void summary_put_time_parts(struct json *j, const struct run_time *t)
{
	json_open_object(j, "time");
	summary_put_real(j, "compute_planned_seconds", t->planned);
	summary_put_real(j, "woken_late_seconds", t->late);
	summary_put_real(j, "waiting_for_data_seconds", t->data);
	summary_put_real(j, "waiting_for_ranks_seconds", t->ranks);
	json_close_object(j);
}

static void summary_put_slowest(struct json *j, const struct run_result_phase *p)
{
	json_open_object(j, "slowest");
	json_u64(j, "rank", p->slowest.rank);
	summary_put_real(j, "rank_wait_seconds", p->slowest.seconds);
	json_u64(j, "sample", p->slowest.sample);
	json_string(j, "sample_file", p->slowest.name);
	json_u64(j, "sample_rank", p->slowest.sample_rank);
	summary_put_real(j, "sample_seconds", p->slowest.sample_seconds);
	json_close_object(j);
}

static void summary_put_phase(struct json *j, const struct run_result_phase *p, bool device_known)
{
	json_u64(j, "epoch", p->epoch);
	json_string(j, "kind", p->eval ? "eval" : "train");
	json_bool(j, "partial", p->partial);
	json_u64(j, "steps", p->steps);
	json_u64(j, "steps_due", p->steps_due);
	json_u64(j, "steps_before_resume", p->steps_before);
	summary_put_time(j, "start", p->started);
	summary_put_time(j, "end", p->ended);
	summary_put_real(j, "seconds", p->seconds);
	summary_put_real(j, "au_percentage", p->figures.au);
	summary_put_real(j, "au_planned_percentage", p->figures.au_planned);
	summary_put_real(j, "throughput_samples_per_second", p->figures.throughput);
	summary_put_real(j, "measured_seconds", p->block_seconds);
	summary_put_real(j, "measured_bytes_per_second",
			 p->block_seconds > 0 ? (double)p->bytes_delivered / p->block_seconds : 0);
	json_open_object(j, "latency_us");
	summary_put_latency(j, "total", &p->latency);
	summary_put_latency(j, "open", &p->open);
	summary_put_latency(j, "read_and_close", &p->read);
	json_close_object(j);
	summary_put_requests(j, p);
	summary_put_real(j, "queue_depth", p->queue_depth);
	summary_put_real(j, "cpu_us_per_sample", p->cpu_us);
	summary_put_real(j, "wait_share", p->wait_share);
	summary_put_time_parts(j, &p->time);
	summary_put_slowest(j, p);
	summary_put_audit(j, p, device_known);
}

static void summary_put_nodes(struct json *j, const struct run_result *r)
{
	json_open_array(j, "memory_per_node");
	for (size_t i = 0; i < r->nr_nodes; i++) {
		const struct run_node *n = &r->nodes[i];

		json_open_object(j, NULL);
		json_string(j, "host", n->host);
		json_u64(j, "ranks", n->nr_ranks);
		json_u64(j, "pss_bytes", n->pss_bytes);
		json_u64(j, "pool_bytes", n->pool_bytes);
		json_u64(j, "catalog_bytes", n->catalog_bytes);
		json_close_object(j);
	}
	json_close_array(j);
}

/* Samples that could not be read, with messages for the first of them. */
static void summary_put_errors(struct json *j, const struct run_result *r)
{
	json_open_object(j, "errors");
	json_u64(j, "samples", run_result_errors(r));
	json_open_array(j, "first");
	for (size_t i = 0; i < r->nr_errors; i++)
		json_string(j, NULL, r->errors[i]);
	json_close_array(j);
	json_close_object(j);
}

/* What kept training from its AU; null if nothing did. */
static void summary_put_limit(struct json *j, const struct run_result *r)
{
	char words[256];

	json_string(j, "limit", run_result_limit(r, words, sizeof(words)) ? words : NULL);
}

static void summary_put_shoal(struct json *j, const struct run_result *r)
{
	json_open_object(j, "shoal");
	json_string(j, "version", shoal_version());
	json_string(j, "workload", r->workload->name);
	json_bool(j, "partial", r->partial);
	json_string(j, "why_partial", r->partial ? r->why_partial : NULL);
	json_string(j, "no_series_because", r->no_series[0] ? r->no_series : NULL);
	/* Reasons for "fail" other than an AU below the target. */
	json_string(j, "not_a_success_because", run_result_unfit(r));
	json_u64(j, "resumed", r->resumed);
	json_u64(j, "epochs_due", r->workload->train.epochs);
	json_u64(j, "ranks", r->nr_ranks);
	json_u64(j, "cores", r->cores);
	json_string(j, "data", r->data ? r->data : "");
	json_string(j, "catalog", r->catalog);
	json_string(j, "catalog_digest", r->digest);
	json_bool(j, "bytes_made_up", r->synthetic);
	json_string(j, "engine", r->engine);
	json_string(j, "engine_detail", r->engine_detail);
	json_bool(j, "direct", r->direct);
	/* As DLIO 3 does before each epoch. */
	json_bool(j, "page_cache_dropped_before_each_epoch", r->drop_cache);
	json_u64(j, "read_threads_per_accelerator", r->read_threads);
	json_u64(j, "in_flight_per_rank", r->in_flight);
	json_u64(j, "prefetch_batches", r->prefetch);
	json_string(j, "order", r->order);
	json_format(j, "seed", "%" PRIu64, r->seed); /* a string: it may exceed 2^53 */
	summary_put_real(j, "seconds_to_first_batch", r->seconds_to_first_batch);
	summary_put_real(j, "au_bar_percentage", r->workload->au * 100.0);
	summary_put_limit(j, r);
	summary_put_nodes(j, r);
	summary_put_errors(j, r);
	json_open_array(j, "phases");
	for (size_t i = 0; i < r->nr_phases; i++) {
		json_open_object(j, NULL);
		summary_put_phase(j, &r->phases[i], r->device_known);
		json_close_object(j);
	}
	json_close_array(j);
	json_close_object(j);
}

static void put_summary(struct json *j, const void *self)
{
	const struct run_result *r = self;

	summary_put_time(j, "start", r->started);
	summary_put_time(j, "end", r->ended);
	json_u64(j, "epochs", r->train.nr); /* those in the metrics, as in DLIO */
	json_u64(j, "num_files_train", r->nr_files);
	json_u64(j, "num_files_eval", r->nr_files_eval);
	json_u64(j, "num_samples_per_file", r->workload->dataset.samples_per_file);
	summary_put_hosts(j, r);
	json_open_object(j, "metric");
	summary_put_metric(j, r, false);
	if (r->eval.nr > 0)
		summary_put_metric(j, r, true);
	json_close_object(j);
	summary_put_shoal(j, r);
}

int report_summary_text(const struct run_result *r, char **ret_text, struct shoal_err *err)
{
	return report_text(put_summary, r, (struct json){ .indent = 4, .lines = 9 }, ret_text, err);
}

struct summary_phase {
	const struct run_result *r;
	size_t i;
};

static void summary_put_one(struct json *j, const void *self)
{
	const struct summary_phase *p = self;

	summary_put_phase(j, &p->r->phases[p->i], p->r->device_known);
}

int report_phase_text(const struct run_result *r, size_t i, char **ret_text, struct shoal_err *err)
{
	return report_text(summary_put_one, &(struct summary_phase){ r, i }, (struct json){ 0 },
			   ret_text, err);
}

int report_summary_write(const struct run_result *r, const char *folder, struct shoal_err *err)
{
	char *words = NULL;
	int rc = report_summary_text(r, &words, err);

	if (rc == 0)
		rc = report_write_text(folder, run_file_name(RUN_FILE_SUMMARY), words, err);
	free(words);
	return rc;
}

/* The values are set as a user would: by overrides of the resolved workload. */
int report_effective_text(const struct run_result *r, char **ret_text, struct shoal_err *err)
{
	const char *yaml = r->workload->yaml;
	char values[5][64], data[4200], *overrides[ARRAY_LEN(values) + 1];
	size_t nr = 0;
	struct workload *used = NULL;
	int rc;

	snprintf(values[0], sizeof(values[0]), "reader.read_threads=%" PRIu64, r->read_threads);
	snprintf(values[1], sizeof(values[1]), "reader.prefetch_size=%" PRIu64, r->prefetch);
	snprintf(values[2], sizeof(values[2]), "reader.odirect=%s", r->direct ? "true" : "false");
	snprintf(values[3], sizeof(values[3]),
		 "workflow.checkpoint=false"); /* no checkpoint is written */
	snprintf(values[4], sizeof(values[4]), "train.seed=%" PRIu64, r->seed);
	for (; nr < ARRAY_LEN(values); nr++)
		overrides[nr] = values[nr];
	/* A folder whose name cannot be quoted is only in summary.json. */
	if (r->data && is_plain_utf8(r->data, strlen(r->data)) && !strpbrk(r->data, "\"\\$") &&
	    snprintf(data, sizeof(data), "dataset.data_folder=\"%s\"", r->data) < (int)sizeof(data))
		overrides[nr++] = data;
	rc = workload_parse(yaml, strlen(yaml), r->workload->name, overrides, nr, NULL, NULL, &used,
			    err);
	*ret_text = rc == 0 ? strdup(used->yaml) : NULL;
	if (rc == 0 && !*ret_text)
		rc = err_set(err, -ENOMEM, "out of memory");
	workload_free(used);
	return rc;
}

int report_config_write(const struct run_result *r, const char *folder, struct shoal_err *err)
{
	int rc = report_write_text(folder, run_file_name(RUN_FILE_CONFIG), r->workload->asked, err);
	char *text = NULL;

	if (rc == 0)
		rc = report_effective_text(r, &text, err);
	if (rc == 0)
		rc = report_write_text(folder, run_file_name(RUN_FILE_EFFECTIVE), text, err);
	free(text);
	return rc;
}
