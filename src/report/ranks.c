/* RANK_output.json and RANK_per_epoch_stats.json, as DLIO writes them: straight from the log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/host.h"
#include "report/report.h"
#include "report/write.h"

/* One accelerator's files being written. */
struct writing {
	const struct bench_workload *w;
	const struct bench_log *log;
	uint32_t accelerator;
	struct report_file f;
	int which; /* of load, proc, compute */
	bool first;
	struct bench_block block;
	char *meminfo;
	double data_gb; /* a host's share of the data */
};

/* "block1", or "eval": DLIO does not cut evaluations into blocks. */
static void block_name(const struct bench_log_block *b, unsigned number, char *buf, size_t cap)
{
	if (b->eval && number == 1)
		snprintf(buf, cap, "eval");
	else
		snprintf(buf, cap, "%s%u", b->eval ? "eval" : "block", number);
}

/* The next block of an epoch: 1, or 0 when there is none. Counts those of its kind. */
struct blocks {
	struct bench_log_block at;
	unsigned nr_train, nr_eval;
};

static int next_of(const struct bench_log *log, uint32_t epoch, struct blocks *b, char *name,
		   size_t cap, struct shoal_err *err)
{
	int rc;

	while ((rc = bench_log_next(log, &b->at, err)) == 1) {
		if (b->at.epoch != epoch || b->at.nr_steps == 0)
			continue;
		block_name(&b->at, b->at.eval ? ++b->nr_eval : ++b->nr_train, name, cap);
		return 1;
	}
	return rc;
}

/* ---- output.json ---- */

static int put_time(void *self, uint32_t accelerator, const struct bench_step *s)
{
	struct writing *x = self;
	uint64_t ns = x->which == 0 ? s->load : x->which == 1 ? s->load + s->compute : s->compute;

	(void)accelerator;
	report_put(&x->f, "%s%.9f", x->first ? "" : ", ", (double)ns * 1e-9);
	x->first = false;
	return x->f.out.rc;
}

static int add_step(void *self, uint32_t accelerator, const struct bench_step *s)
{
	struct writing *x = self;

	(void)accelerator;
	bench_block_add(&x->block, s);
	return 0;
}

static int put_times(struct writing *x, uint32_t epoch, int which, struct shoal_err *err)
{
	struct blocks b = { 0 };
	bool first = true;
	char name[32];
	int rc;

	while ((rc = next_of(x->log, epoch, &b, name, sizeof(name), err)) == 1) {
		report_put(&x->f, "%s\"%s\": [", first ? "" : ", ", name);
		x->which = which;
		x->first = true;
		first = false;
		rc = bench_log_read(x->log, &b.at, x->accelerator, put_time, x, err);
		if (rc < 0)
			return rc;
		report_put(&x->f, "]");
	}
	return rc;
}

static int put_figures(struct writing *x, uint32_t epoch, bool au, struct shoal_err *err)
{
	struct bench_window window = { x->w->output.exclude_start_steps,
				       x->w->output.exclude_end_steps };
	struct blocks b = { 0 };
	bool first = true;
	char name[32];
	int rc;

	while ((rc = next_of(x->log, epoch, &b, name, sizeof(name), err)) == 1) {
		struct bench_figures f;

		bench_block_start(&x->block, b.at.nr_steps, window);
		rc = bench_log_read(x->log, &b.at, x->accelerator, add_step, x, err);
		if (rc < 0)
			return rc;
		f = b.at.eval ? bench_eval_figures(&x->block, x->w->reader.batch_eval, b.at.wall)
			      : bench_block_figures(&x->block, x->w->reader.batch, b.at.wall);
		report_put(&x->f, "%s\"%s\": %.12g", first ? "" : ", ", name,
			   au ? f.au : f.throughput);
		first = false;
	}
	return rc;
}

static int put_epoch(struct writing *x, uint32_t epoch, struct shoal_err *err)
{
	static const char *const lists[] = { "load", "proc", "compute" };
	int rc = 0;

	report_put(&x->f, ",\n\"%" PRIu32 "\": {", epoch);
	for (int i = 0; rc == 0 && i < 3; i++) {
		report_put(&x->f, "%s\"%s\": {", i ? "},\n " : "", lists[i]);
		rc = put_times(x, epoch, i, err);
	}
	report_put(&x->f, "},\n \"throughput\": {");
	if (rc == 0)
		rc = put_figures(x, epoch, false, err);
	report_put(&x->f, "},\n \"au\": {");
	if (rc == 0)
		rc = put_figures(x, epoch, true, err);
	report_put(&x->f, "}, \"host_meminfo\": ");
	shoal_out_write(&x->f.out, x->meminfo, strlen(x->meminfo));
	report_put(&x->f, "}");
	return rc;
}

/* The epoch after @epoch that has blocks; 0 when there is none. */
static int next_epoch(const struct bench_log *log, uint32_t *epoch, struct shoal_err *err)
{
	struct bench_log_block b = { 0 };
	int rc;

	while ((rc = bench_log_next(log, &b, err)) == 1)
		if (b.epoch > *epoch && b.nr_steps > 0) {
			*epoch = b.epoch;
			return 1;
		}
	return rc;
}

static int put_output(struct writing *x, struct shoal_err *err)
{
	double memory =
		(double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0;
	char host[64] = "", *cpuinfo = report_proc_text("/proc/cpuinfo");
	uint32_t epoch = 0;
	int rc = 0;

	if (!cpuinfo)
		return shoal_fail(err, -ENOMEM, "out of memory");
	gethostname(host, sizeof(host) - 1);
	report_put(&x->f, "{\"hostname\": ");
	report_put_string(&x->f, host);
	report_put(
		&x->f,
		", \"host_memory_GB\": %.3f, \"host_cpu_count\": %ld, "
		"\"host_processor_name\": \"%s\", \"potential_caching\": %d,\n\"host_cpuinfo\": ",
		memory, sysconf(_SC_NPROCESSORS_ONLN), report_processor_name(),
		memory > x->data_gb);
	shoal_out_write(&x->f.out, cpuinfo, strlen(cpuinfo));
	report_put(&x->f, ",\n\"host_meminfo\": ");
	shoal_out_write(&x->f.out, x->meminfo, strlen(x->meminfo));
	while (rc == 0 && (rc = next_epoch(x->log, &epoch, err)) == 1)
		rc = put_epoch(x, epoch, err);
	report_put(&x->f, "}\n");
	free(cpuinfo);
	return rc;
}

/* ---- per_epoch_stats.json ---- */

static void put_span(struct report_file *f, uint64_t started, uint64_t ended)
{
	char start[REPORT_TIME_BYTES], end[REPORT_TIME_BYTES];

	report_time(started, start);
	report_time(ended, end);
	report_put(f, "\"start\": \"%s\", \"end\": \"%s\", \"duration\": \"%.2f\"", start, end,
		   (double)(ended - started) * 1e-9);
}

static int put_stats(struct writing *x, struct shoal_err *err)
{
	uint32_t epoch = 0;
	bool first_epoch = true;
	char name[32];
	int rc = 0;

	report_put(&x->f, "{");
	while (rc == 0 && (rc = next_epoch(x->log, &epoch, err)) == 1) {
		struct blocks b = { 0 };
		uint64_t started = 0, ended = 0;

		report_put(&x->f, "%s\n\"%" PRIu32 "\": {", first_epoch ? "" : ",", epoch);
		first_epoch = false;
		while ((rc = next_of(x->log, epoch, &b, name, sizeof(name), err)) == 1) {
			report_put(&x->f, "\"%s\": {", name);
			put_span(&x->f, b.at.started, b.at.ended);
			report_put(&x->f, "},\n ");
			started = started ? started : b.at.started;
			ended = b.at.ended;
		}
		put_span(&x->f, started, ended);
		report_put(&x->f, "}");
	}
	report_put(&x->f, "}\n");
	return rc;
}

/* ---- Files ---- */

static int write_one(struct writing *x, uint64_t rank, const char *folder, const char *kind,
		     int (*put)(struct writing *x, struct shoal_err *err), struct shoal_err *err)
{
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "%" PRIu64 "_%s.json", rank, kind);
	rc = report_file_open(&x->f, folder, name, err);
	if (rc < 0)
		return rc;
	rc = put(x, err);
	if (rc == 0)
		return report_file_commit(&x->f, err);
	report_file_abort(&x->f);
	return *err->msg ? rc : shoal_fail_errno(err, rc, "cannot write '%s'", name);
}

int report_ranks_write(const struct bench_workload *w, const struct bench_log *log,
		       uint64_t first_rank, uint64_t nr_hosts, const char *folder,
		       struct shoal_err *err)
{
	struct writing x = { .w = w, .log = log, .meminfo = report_proc_text("/proc/meminfo") };
	int rc = x.meminfo ? 0 : shoal_fail(err, -ENOMEM, "out of memory");

	x.data_gb = (double)w->dataset.nr_files_train * (double)w->dataset.samples_per_file *
		    w->dataset.record_bytes / 1073741824.0 / (double)shoal_max(1, nr_hosts);
	for (uint32_t a = 0; rc == 0 && a < log->nr_accelerators; a++) {
		x.accelerator = a;
		rc = write_one(&x, first_rank + a, folder, "output", put_output, err);
		if (rc == 0)
			rc = write_one(&x, first_rank + a, folder, "per_epoch_stats", put_stats,
				       err);
	}
	free(x.meminfo);
	return rc;
}
