/* RANK_output.json and RANK_per_epoch_stats.json, as DLIO writes them: straight from the log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/host.h"
#include "report/report.h"
#include "report/write.h"

/* A block, and what DLIO calls it. */
struct named_block {
	struct bench_log_block at;
	char name[24]; /* "block1", or "eval": DLIO does not cut evaluations into blocks */
};

/* The files of one accelerator after the other. */
struct writing {
	const struct bench_workload *w;
	struct bench_log_view view;
	/* Those that have steps, by epochs; some 130 bytes a block, of which an epoch has one or
	 * two.
	 */
	struct named_block *blocks;
	size_t nr_blocks;
	uint32_t accelerator;
	struct report_file f;
	int which; /* of load, proc, compute */
	bool first;
	bool sync; /* every file by itself */
	struct bench_block block;
	char *meminfo, *cpuinfo;
	double data_gb; /* a host's share of the data */
};

/* ---- The blocks ---- */

static int add_named(struct writing *x, const struct bench_log_block *b, struct shoal_err *err)
{
	struct named_block *more, *last;
	unsigned number = 1;

	if ((x->nr_blocks & (x->nr_blocks - 1)) == 0) {
		more = realloc(x->blocks, (x->nr_blocks ? 2 * x->nr_blocks : 1) * sizeof(*more));
		if (!more)
			return shoal_fail(err, -ENOMEM, "out of memory");
		x->blocks = more;
	}
	for (size_t i = x->nr_blocks; i-- > 0 && x->blocks[i].at.epoch == b->epoch;)
		number += x->blocks[i].at.eval == b->eval;
	last = &x->blocks[x->nr_blocks++];
	last->at = *b;
	if (b->eval && number == 1)
		snprintf(last->name, sizeof(last->name), "eval");
	else
		snprintf(last->name, sizeof(last->name), "%s%u", b->eval ? "eval" : "block",
			 number);
	return 0;
}

static int find_blocks(struct writing *x, const struct bench_log *log, struct shoal_err *err)
{
	struct bench_log_block b = { 0 };
	int rc;

	while ((rc = bench_log_next(log, &b, err)) == 1)
		if (b.nr_steps > 0 && (rc = add_named(x, &b, err)) < 0)
			return rc;
	return rc;
}

/* The blocks of the epoch that begins at @from: where the next one begins. */
static size_t end_of_epoch(const struct writing *x, size_t from)
{
	size_t to = from;

	while (to < x->nr_blocks && x->blocks[to].at.epoch == x->blocks[from].at.epoch)
		to++;
	return to;
}

/* ---- output.json ---- */

static int put_time(void *self, uint32_t accelerator, const struct bench_step *s)
{
	struct writing *x = self;
	uint64_t ns = x->which == 0 ? s->load : x->which == 1 ? s->load + s->compute : s->compute;

	(void)accelerator;
	if (!x->first)
		shoal_out_write(&x->f.out, ", ", 2);
	x->first = false;
	report_put_seconds(&x->f, ns);
	return x->f.out.rc;
}

static int add_step(void *self, uint32_t accelerator, const struct bench_step *s)
{
	struct writing *x = self;

	(void)accelerator;
	bench_block_add(&x->block, s);
	return 0;
}

static int put_times(struct writing *x, size_t from, size_t to, int which, struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = from; i < to && rc == 0; i++) {
		report_put(&x->f, "%s\"%s\": [", i > from ? ", " : "", x->blocks[i].name);
		x->which = which;
		x->first = true;
		rc = bench_log_view_read(&x->view, &x->blocks[i].at, x->accelerator, put_time, x,
					 err);
		report_put(&x->f, "]");
	}
	return rc;
}

static int put_figures(struct writing *x, size_t from, size_t to, bool au, struct shoal_err *err)
{
	struct bench_window window = { x->w->output.exclude_start_steps,
				       x->w->output.exclude_end_steps };

	for (size_t i = from; i < to; i++) {
		const struct bench_log_block *b = &x->blocks[i].at;
		struct bench_figures f;
		int rc;

		bench_block_start(&x->block, b->nr_steps, bench_log_window(b, window));
		rc = bench_log_view_read(&x->view, b, x->accelerator, add_step, x, err);
		if (rc < 0)
			return rc;
		f = b->eval ? bench_eval_figures(&x->block, x->w->reader.batch_eval, b->wall)
			    : bench_block_figures(&x->block, x->w->reader.batch, b->wall);
		report_put(&x->f, "%s\"%s\": %.12g", i > from ? ", " : "", x->blocks[i].name,
			   au ? f.au : f.throughput);
	}
	return 0;
}

static int put_epoch(struct writing *x, size_t from, size_t to, struct shoal_err *err)
{
	static const char *const lists[] = { "load", "proc", "compute" };
	int rc = 0;

	report_put(&x->f, ",\n\"%" PRIu32 "\": {", x->blocks[from].at.epoch);
	for (int i = 0; rc == 0 && i < 3; i++) {
		report_put(&x->f, "%s\"%s\": {", i ? "},\n " : "", lists[i]);
		rc = put_times(x, from, to, i, err);
	}
	report_put(&x->f, "},\n \"throughput\": {");
	if (rc == 0)
		rc = put_figures(x, from, to, false, err);
	report_put(&x->f, "},\n \"au\": {");
	if (rc == 0)
		rc = put_figures(x, from, to, true, err);
	report_put(&x->f, "}, \"host_meminfo\": ");
	shoal_out_write(&x->f.out, x->meminfo, strlen(x->meminfo));
	report_put(&x->f, "}");
	return rc;
}

static int put_output(struct writing *x, struct shoal_err *err)
{
	double memory =
		(double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0;
	char host[64] = "";
	int rc = 0;

	gethostname(host, sizeof(host) - 1);
	report_put(&x->f, "{\"hostname\": ");
	report_put_string(&x->f, host);
	report_put(
		&x->f,
		", \"host_memory_GB\": %.3f, \"host_cpu_count\": %ld, "
		"\"host_processor_name\": \"%s\", \"potential_caching\": %d,\n\"host_cpuinfo\": ",
		memory, sysconf(_SC_NPROCESSORS_ONLN), report_processor_name(),
		memory > x->data_gb);
	shoal_out_write(&x->f.out, x->cpuinfo, strlen(x->cpuinfo));
	report_put(&x->f, ",\n\"host_meminfo\": ");
	shoal_out_write(&x->f.out, x->meminfo, strlen(x->meminfo));
	for (size_t at = 0; rc == 0 && at < x->nr_blocks; at = end_of_epoch(x, at))
		rc = put_epoch(x, at, end_of_epoch(x, at), err);
	report_put(&x->f, "}\n");
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
	(void)err;
	report_put(&x->f, "{");
	for (size_t from = 0, to; from < x->nr_blocks; from = to) {
		to = end_of_epoch(x, from);
		report_put(&x->f, "%s\n\"%" PRIu32 "\": {", from ? "," : "",
			   x->blocks[from].at.epoch);
		for (size_t i = from; i < to; i++) {
			report_put(&x->f, "\"%s\": {", x->blocks[i].name);
			put_span(&x->f, x->blocks[i].at.started, x->blocks[i].at.ended);
			report_put(&x->f, "},\n ");
		}
		put_span(&x->f, x->blocks[from].at.started, x->blocks[to - 1].at.ended);
		report_put(&x->f, "}");
	}
	report_put(&x->f, "}\n");
	return 0;
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
		return x->sync ? report_file_commit(&x->f, err)
			       : report_file_commit_unsynced(&x->f, err);
	report_file_abort(&x->f);
	return *err->msg ? rc : shoal_fail_errno(err, rc, "cannot write '%s'", name);
}

/*
 * Of all accelerators. Many are put onto the disk at once, with whatever else its file system holds
 * back: a sync for each would take minutes.
 */
#define SYNC_EACH 16

static int write_all(struct writing *x, uint32_t nr, uint64_t first_rank, const char *folder,
		     struct shoal_err *err)
{
	int rc = 0;

	x->sync = nr <= SYNC_EACH;
	for (uint32_t a = 0; rc == 0 && a < nr; a++) {
		x->accelerator = a;
		rc = write_one(x, first_rank + a, folder, "output", put_output, err);
		if (rc == 0)
			rc = write_one(x, first_rank + a, folder, "per_epoch_stats", put_stats,
				       err);
	}
	return rc < 0 || x->sync ? rc : report_sync(folder, err);
}

int report_ranks_write(const struct bench_result *r, const struct bench_log *log,
		       uint64_t first_rank, uint64_t nr_hosts, const char *folder,
		       struct shoal_err *err)
{
	struct writing x = { .w = r->workload,
			     .meminfo = report_proc_text("/proc/meminfo"),
			     .cpuinfo = report_proc_text("/proc/cpuinfo") };
	int rc = bench_log_view_open(log, &x.view, err);

	if (rc == 0 && (!x.meminfo || !x.cpuinfo))
		rc = shoal_fail(err, -ENOMEM, "out of memory");
	x.data_gb = r->bytes / 1073741824.0 / (double)shoal_max(1, nr_hosts);
	if (rc == 0)
		rc = find_blocks(&x, log, err);
	if (rc == 0)
		rc = write_all(&x, log->nr_accelerators, first_rank, folder, err);
	bench_log_view_close(&x.view);
	free(x.blocks);
	free(x.meminfo);
	free(x.cpuinfo);
	return rc;
}
