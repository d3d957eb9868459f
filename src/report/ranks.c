/* RANK_output.json and RANK_per_epoch_stats.json, in DLIO's format, straight from the step log. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/host.h"
#include "report/report.h"
#include "report/write.h"
#include "run/folder.h"

/* A block, and its name in DLIO. */
struct named_block {
	struct step_log_block at;
	char name[24]; /* "block1", or "eval": DLIO does not divide evaluations into blocks */
};

/* State while writing the files, one accelerator after the other. */
struct ranks_writing {
	const struct workload *w;
	struct step_log_view view;
	/*
	 * Blocks with steps, by epoch; about 130 bytes per block, of which an epoch has one or two.
	 */
	struct named_block *blocks;
	size_t nr_blocks;
	uint32_t accelerator;
	struct report_file f;
	struct json json;
	int which; /* of load, proc, compute */
	bool sync; /* every file by itself */
	struct step_block block;
	double data_gb; /* a host's share of the data */
};

/* ---- The blocks ---- */

static int add_named(struct ranks_writing *x, const struct step_log_block *b, struct shoal_err *err)
{
	struct named_block *more, *last;
	unsigned number = 1;

	if ((x->nr_blocks & (x->nr_blocks - 1)) == 0) {
		more = realloc(x->blocks, (x->nr_blocks ? 2 * x->nr_blocks : 1) * sizeof(*more));
		if (!more)
			return err_set(err, -ENOMEM, "out of memory");
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

static int find_blocks(struct ranks_writing *x, const struct step_log *log, struct shoal_err *err)
{
	struct step_log_block b = { 0 };
	int rc;

	while ((rc = step_log_next(log, &b, err)) == 1)
		if (b.nr_steps > 0 && (rc = add_named(x, &b, err)) < 0)
			return rc;
	return rc;
}

/* The end of the epoch whose blocks begin at @from. */
static size_t end_of_epoch(const struct ranks_writing *x, size_t from)
{
	size_t to = from;

	while (to < x->nr_blocks && x->blocks[to].at.epoch == x->blocks[from].at.epoch)
		to++;
	return to;
}

/* ---- output.json ---- */

static int ranks_put_time(void *self, uint32_t accelerator, const struct run_step *s)
{
	struct ranks_writing *x = self;
	uint64_t ns = x->which == 0 ? s->load : x->which == 1 ? s->load + s->compute : s->compute;

	(void)accelerator;
	json_seconds(&x->json, NULL, ns);
	return x->f.out.rc;
}

static int ranks_add_step(void *self, uint32_t accelerator, const struct run_step *s)
{
	struct ranks_writing *x = self;

	(void)accelerator;
	step_block_add(&x->block, s);
	return 0;
}

static int put_times(struct ranks_writing *x, size_t from, size_t to, int which,
		     struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = from; i < to && rc == 0; i++) {
		json_open_array(&x->json, x->blocks[i].name);
		x->which = which;
		rc = step_log_view_read(&x->view, &x->blocks[i].at, x->accelerator, ranks_put_time,
					x, err);
		json_close_array(&x->json);
	}
	return rc;
}

static int put_figures(struct ranks_writing *x, size_t from, size_t to, bool au,
		       struct shoal_err *err)
{
	struct step_window window = { x->w->output.exclude_start_steps,
				      x->w->output.exclude_end_steps };

	for (size_t i = from; i < to; i++) {
		const struct step_log_block *b = &x->blocks[i].at;
		struct step_figures f;
		int rc;

		step_block_start(&x->block, b->nr_steps, step_log_window(b, window));
		rc = step_log_view_read(&x->view, b, x->accelerator, ranks_add_step, x, err);
		if (rc < 0)
			return rc;
		f = b->eval ? step_eval_figures(&x->block, x->w->reader.batch_eval, b->wall)
			    : step_block_figures(&x->block, x->w->reader.batch, b->wall);
		json_real(&x->json, x->blocks[i].name, au ? f.au : f.throughput, 12);
	}
	return 0;
}

static void open_epoch(struct ranks_writing *x, size_t from)
{
	char name[16];

	snprintf(name, sizeof(name), "%" PRIu32, x->blocks[from].at.epoch);
	json_open_object(&x->json, name);
}

static int put_epoch(struct ranks_writing *x, size_t from, size_t to, struct shoal_err *err)
{
	static const char *const lists[] = { "load", "proc", "compute" };
	char end[REPORT_TIME_BYTES];
	int rc = 0;

	open_epoch(x, from);
	for (int i = 0; rc == 0 && i < 3; i++) {
		json_open_object(&x->json, lists[i]);
		rc = put_times(x, from, to, i, err);
		json_close_object(&x->json);
	}
	for (int au = 0; rc == 0 && au < 2; au++) {
		json_open_object(&x->json, au ? "au" : "throughput");
		rc = put_figures(x, from, to, au, err);
		json_close_object(&x->json);
	}
	report_put_proc(&x->json, "host_meminfo", "/proc/meminfo");
	report_time(x->blocks[to - 1].at.ended, end);
	json_string(&x->json, "end", end);
	json_close_object(&x->json);
	return rc;
}

static int put_output(struct ranks_writing *x, struct shoal_err *err)
{
	double memory =
		(double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0;
	struct json *j = &x->json;
	char host[64] = "";
	int rc = 0;

	gethostname(host, sizeof(host) - 1);
	json_open_object(j, NULL);
	json_string(j, "hostname", host);
	json_real(j, "host_memory_GB", memory, 9);
	json_u64(j, "host_cpu_count", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	report_put_processor(j, "host_processor_name");
	json_u64(j, "potential_caching", memory > x->data_gb);
	report_put_proc(j, "host_cpuinfo", "/proc/cpuinfo");
	report_put_proc(j, "host_meminfo", "/proc/meminfo");
	for (size_t at = 0; rc == 0 && at < x->nr_blocks; at = end_of_epoch(x, at))
		rc = put_epoch(x, at, end_of_epoch(x, at), err);
	json_close_object(j);
	return rc;
}

/* ---- per_epoch_stats.json ---- */

static void put_span(struct json *j, uint64_t started, uint64_t ended)
{
	char text[REPORT_TIME_BYTES];

	report_time(started, text);
	json_string(j, "start", text);
	report_time(ended, text);
	json_string(j, "end", text);
	json_format(j, "duration", "%.2f", (double)(ended - started) * 1e-9);
}

static int put_stats(struct ranks_writing *x, struct shoal_err *err)
{
	struct json *j = &x->json;

	(void)err;
	json_open_object(j, NULL);
	for (size_t from = 0, to; from < x->nr_blocks; from = to) {
		to = end_of_epoch(x, from);
		open_epoch(x, from);
		for (size_t i = from; i < to; i++) {
			json_open_object(j, x->blocks[i].name);
			put_span(j, x->blocks[i].at.started, x->blocks[i].at.ended);
			json_close_object(j);
		}
		put_span(j, x->blocks[from].at.started, x->blocks[to - 1].at.ended);
		json_close_object(j);
	}
	json_close_object(j);
	return 0;
}

/* ---- Files ---- */

static int write_one(struct ranks_writing *x, uint64_t rank, const char *folder, const char *kind,
		     int (*put)(struct ranks_writing *x, struct shoal_err *err),
		     struct shoal_err *err)
{
	struct run_rank_name name = run_rank_file_name(rank, kind);
	int rc = report_file_open(&x->f, folder, name.text, err);

	if (rc < 0)
		return rc;
	x->json = report_json(&x->f);
	rc = put(x, err);
	if (rc == 0)
		return x->sync ? report_file_commit(&x->f, err)
			       : report_file_commit_unsynced(&x->f, err);
	report_file_abort(&x->f);
	return *err->msg ? rc : err_set_errno(err, rc, "cannot write '%s'", name.text);
}

/*
 * Up to this many accelerators, each file is synced on its own. More are synced together, with
 * everything else on the file system: a sync per file would take minutes.
 */
#define SYNC_EACH 16

static int ranks_write_all(struct ranks_writing *x, uint32_t nr, uint64_t first_rank,
			   const char *folder, struct shoal_err *err)
{
	int rc = 0;

	x->sync = nr <= SYNC_EACH;
	for (uint32_t a = 0; rc == 0 && a < nr; a++) {
		x->accelerator = a;
		rc = write_one(x, first_rank + a, folder, RUN_RANK_OUTPUT, put_output, err);
		if (rc == 0)
			rc = write_one(x, first_rank + a, folder, RUN_RANK_STATS, put_stats, err);
	}
	return rc < 0 || x->sync ? rc : report_sync(folder, err);
}

int report_ranks_write(const struct run_result *r, const struct step_log *log, uint64_t first_rank,
		       uint64_t nr_hosts, const char *folder, struct shoal_err *err)
{
	struct ranks_writing x = { .w = r->workload };
	int rc = step_log_view_open(log, &x.view, err);

	x.data_gb = r->bytes / 1073741824.0 / (double)u64_max(1, nr_hosts);
	if (rc == 0)
		rc = find_blocks(&x, log, err);
	if (rc == 0)
		rc = ranks_write_all(&x, log->nr_accelerators, first_rank, folder, err);
	step_log_view_close(&x.view);
	free(x.blocks);
	return rc;
}
