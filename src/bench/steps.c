/* One phase: an epoch of training, or an evaluation. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/run_inside.h"

/* Progress is told no more often. */
#define SHOW_NS 200000000u

/* A figure and the rank that has it travel in one number, so that the largest names its rank. */
#define RANK_BITS 20u

uint64_t run_wall_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool stopped(const struct run *run)
{
	return run->o->stop && __atomic_load_n(run->o->stop, __ATOMIC_RELAXED);
}

/* ---- The order and the loader ---- */

/*
 * DLIO shuffles files, samples, or both. With one sample a file that is all the same. Containers
 * are read from their start, so their samples are mixed over a window of open files.
 */
static enum shoal_mode mode_of(const struct bench_workload *w)
{
	bool files = w->reader.file_shuffle != BENCH_SHUFFLE_OFF;
	bool samples = w->reader.sample_shuffle != BENCH_SHUFFLE_OFF;

	if (!files && !samples)
		return SHOAL_SEQUENTIAL;
	if (w->dataset.samples_per_file == 1 || (samples && w->framework == BENCH_PYTORCH))
		return SHOAL_GLOBAL;
	return samples ? SHOAL_WINDOW : SHOAL_FILES;
}

const char *run_order_name(const struct bench_workload *w)
{
	static const char *const names[] = { [SHOAL_SEQUENTIAL] = "sequential",
					     [SHOAL_GLOBAL] = "global",
					     [SHOAL_FILES] = "files",
					     [SHOAL_WINDOW] = "window",
					     [SHOAL_LOCAL] = "local" };

	return names[mode_of(w)];
}

int run_open_loader(struct run *run, const struct phase *phase, struct shoal_loader **ret_loader,
		    struct shoal_err *err)
{
	const struct bench_workload *w = run->w;
	uint64_t unit = w->dataset.samples_per_file;
	struct shoal_order_spec spec = {
		.mode = mode_of(w),
		.remainder = SHOAL_DROP,
		.seed = run->state.seed,
		.frozen = !w->train.seed_change_epoch,
		.nr_samples = phase->part->nr_samples,
		.unit = unit,
		.window = shoal_max(2, (w->reader.shuffle_size + unit - 1) / unit),
		.nr_ranks = run->nr_ranks,
		.batch = phase->batch * run->nr_here,
		.consumed = phase->first_step * phase->batch * run->nr_all,
	};
	struct shoal_load_options load = run->load;

	load.first = phase->part->first_sample;
	return shoal_loader_open(phase->part->cat, &spec, run->rank, &load, ret_loader, err);
}

/* ---- One step ---- */

/* A year is longer than anyone waits, and far from where sums of times would wrap. */
static uint64_t ns_of(double seconds)
{
	return (uint64_t)(fmin(fmax(seconds, 0), 31536000.0) * 1e9);
}

/* When each accelerator's part of the batch was read, and preprocessed. Returns the last read. */
static uint64_t note_ready(struct run *run, struct phase *phase, const struct shoal_batch *batch,
			   uint64_t step)
{
	uint64_t last = 0;

	memset(run->ready, 0, (size_t)run->nr_here * sizeof(*run->ready));
	for (size_t i = 0; i < batch->nr; i++) {
		const struct load_request *r = load_request_of(batch, i);
		uint64_t a = i / phase->batch, took = r->finished - r->started;
		uint64_t ready = r->finished;

		last = shoal_max(last, r->finished);
		run->steps[a].errors += batch->sample[i].error != 0;
		if (took > phase->slowest_ns && !batch->sample[i].error) {
			phase->slowest_ns = took;
			phase->slowest_sample = batch->sample[i].id;
		}
		if (run->workers) {
			uint64_t key = bench_key(run->state.seed ^ UINT64_C(0x707265),
						 (uint64_t)phase->p->epoch << 1 | phase->p->eval,
						 step, run->rank * run->nr_here * phase->batch + i);
			double s = bench_time_draw(&run->w->reader.preprocess_time, key);

			ready = bench_workers_take(&run->workers[a], r->finished, ns_of(s));
		}
		run->ready[a] = shoal_max(run->ready[a], ready);
	}
	return last;
}

static void draw_compute(struct run *run, const struct phase *phase, uint64_t step, uint64_t asked)
{
	for (uint64_t a = 0; a < run->nr_here; a++) {
		uint64_t key =
			bench_key(run->state.seed, (uint64_t)phase->p->epoch << 1 | phase->p->eval,
				  step, run->rank * run->nr_here + a);

		run->steps[a] = (struct bench_step){
			.asked = asked - phase->started,
			.planned = ns_of(bench_time_draw(phase->compute, key)),
		};
	}
}

/* Files that are not as the catalog has them: say what that means. */
static int explain(int rc, struct shoal_err *err)
{
	struct shoal_err why = *err;

	if (rc == -ENOENT || rc == -ENODATA || rc == -EFBIG)
		shoal_say(err,
			  "%.600s: the files are not those that were indexed or generated; index "
			  "or generate them again",
			  why.msg);
	return rc;
}

static void give_back(struct phase *phase)
{
	if (phase->held)
		shoal_loader_give_back(phase->loader, phase->held);
	phase->held = NULL;
}

/* Load and compute: 1, or 0 when it was stopped, or an error. */
static int load_and_compute(struct run *run, struct phase *phase, struct shoal_err *err)
{
	uint64_t step = phase->first_step + phase->nr_done, asked = bench_now(), read, until;
	const struct shoal_batch *batch = NULL;
	int rc;

	if (stopped(run))
		return 0;
	rc = shoal_loader_next(phase->loader, &batch, err);
	if (rc == -ECANCELED)
		return 0;
	if (rc == 0)
		return shoal_fail(err, -EPROTO, "the epoch ended at step %" PRIu64 " of %" PRIu64,
				  step, phase->steps);
	if (rc < 0)
		return explain(rc, err);
	if (!run->first_batch)
		run->first_batch = bench_now();
	draw_compute(run, phase, step, asked);
	read = note_ready(run, phase, batch, step);
	until = bench_step_plan(run->steps, run->ready, (size_t)run->nr_here, asked, read,
				bench_now());
	bench_tally_batch(&run->tally, batch);
	/*
	 * The batch before is given back only now, so that the loader reads on while we sleep and
	 * not while all ranks meet; as many batches are ahead as the workload says all the same.
	 */
	give_back(phase);
	phase->held = batch;
	rc = bench_sleep_until(until, run->o->stop) ? 1 : 0;
	bench_step_done(run->steps, (size_t)run->nr_here, asked, bench_now());
	return rc;
}

static uint64_t with_rank(uint64_t ns, uint64_t rank)
{
	return shoal_min(ns / 1000, UINT64_MAX >> RANK_BITS) << RANK_BITS | rank;
}

/* The barrier behind a step, which also tells whether all have done it and nobody was stopped. */
static int meet(struct run *run, struct phase *phase, bool done, bool *ret_all_done,
		struct shoal_err *err)
{
	uint64_t least[3] = { done, !stopped(run), UINT64_MAX }, load = 0;
	int rc;

	for (uint64_t a = 0; done && a < run->nr_here; a++)
		load = shoal_max(load, run->steps[a].load);
	least[2] -= with_rank(load, run->rank);
	rc = shoal_comm_meeting_hold(run->meeting, SHOAL_COMM_MIN, least, SHOAL_ARRAY_LEN(least),
				     err);
	*ret_all_done = least[0] != 0;
	phase->stopped = least[0] == 0 || least[1] == 0;
	phase->step_slowest = UINT64_MAX - least[2];
	return rc;
}

/* ---- Progress ---- */

static void add_to_progress(const struct run *run, struct phase *phase)
{
	for (uint64_t a = 0; a < run->nr_here; a++) {
		const struct bench_step *s = &run->steps[a];

		if (phase->nr_done < run->w->output.exclude_start_steps) {
			phase->outside_ns += s->load + s->compute;
			continue;
		}
		phase->compute_ns += s->compute;
		phase->load_ns += s->load;
	}
}

/* At the pace of this block: the rest of the run. */
static double seconds_left(const struct run *run, const struct phase *phase, double step_seconds)
{
	uint64_t epochs = run->w->train.epochs - phase->p->epoch;
	double left = (double)(phase->steps - phase->first_step - phase->nr_done);

	if (phase->p->eval)
		return left * step_seconds + (double)epochs * run->plan.epoch_seconds;
	return (left + (double)epochs * (double)run->plan.steps) * step_seconds;
}

static void show_progress(const struct run *run, struct phase *phase)
{
	uint64_t now = bench_now(), wall = now - phase->started;
	uint64_t total = wall * run->nr_here - shoal_min(wall * run->nr_here, phase->outside_ns);
	double seconds = (double)wall * 1e-9;
	struct shoal_load_stats stats;
	struct bench_progress p;

	if (run->rank != 0 || !run->o->progress || now - phase->shown < SHOW_NS ||
	    phase->nr_done == 0)
		return;
	phase->shown = now;
	shoal_loader_stats(phase->loader, &stats);
	p = (struct bench_progress){
		.epoch = phase->p->epoch,
		.nr_epochs = run->w->train.epochs,
		.eval = phase->p->eval != 0,
		.step = phase->first_step + phase->nr_done,
		.steps = phase->steps,
		.au = total ? 100.0 * (double)phase->compute_ns / (double)total : 0,
		.samples_per_second = (double)stats.nr_samples * (double)run->nr_ranks / seconds,
		.bytes_per_second = (double)stats.bytes_delivered * (double)run->nr_ranks / seconds,
		.wait_share = total ? (double)phase->load_ns / (double)total : 0,
		.slowest_rank = phase->step_slowest & ((UINT64_C(1) << RANK_BITS) - 1),
		.slowest_seconds = (double)(phase->step_slowest >> RANK_BITS) * 1e-6,
	};
	p.seconds_left = seconds_left(run, phase, seconds / (double)phase->nr_done);
	run->o->progress(run->o->self, &p);
}

static int run_steps(struct run *run, struct phase *phase, struct shoal_err *err)
{
	while (phase->first_step + phase->nr_done < phase->steps && !phase->stopped) {
		bool all_done = false;
		int rc = load_and_compute(run, phase, err);

		if (rc < 0) {
			shoal_comm_fail(run->comm, err->msg);
			return rc;
		}
		rc = meet(run, phase, rc == 1, &all_done, err);
		if (rc == 0 && all_done) {
			rc = bench_log_step(&run->log, run->steps, err);
			add_to_progress(run, phase);
			phase->nr_done++;
			show_progress(run, phase);
			if (rc < 0)
				shoal_comm_fail(run->comm, err->msg);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- What a phase comes to ---- */

static int add_step(void *self, uint32_t accelerator, const struct bench_step *step)
{
	struct run *run = self;

	bench_block_add(&run->blocks[accelerator], step);
	return 0;
}

static int add_block(struct run *run, const struct phase *phase,
		     const struct bench_log_block *block, uint64_t *load_ns, uint64_t *errors,
		     struct shoal_err *err)
{
	struct bench_window window =
		bench_log_window(block, (struct bench_window){ run->w->output.exclude_start_steps,
							       run->w->output.exclude_end_steps });
	int rc;

	for (uint64_t a = 0; a < run->nr_here; a++)
		bench_block_start(&run->blocks[a], block->nr_steps, window);
	rc = bench_log_read(&run->log, block, add_step, run, err);
	for (uint64_t a = 0; rc == 0 && a < run->nr_here; a++) {
		const struct bench_block *b = &run->blocks[a];
		struct bench_figures f =
			block->eval ? bench_eval_figures(b, phase->batch, block->wall)
				    : bench_block_figures(b, phase->batch, block->wall);

		/* By the steps that count: a block of which none does says nothing. */
		bench_mean_add(&run->means[a], &f, block->eval ? b->nr_added : b->nr_inside);
		*load_ns += b->load;
		*errors += b->errors;
	}
	return rc;
}

/* Sums over ranks travel as whole numbers: a billionth of a percent, a millionth of a sample/s. */
#define AU_PARTS   1e9
#define RATE_PARTS 1e6

int run_figures(struct run *run, struct phase *phase, struct shoal_err *err)
{
	struct bench_log_block block = { 0 };
	struct bench_phase *p = phase->p;
	uint64_t load_ns = 0, wall = 0, sum[5] = { 0 }, slowest;
	int rc = 0;

	p->steps_counted = 0;
	memset(run->means, 0, (size_t)run->nr_here * sizeof(*run->means));
	while (rc >= 0 && (rc = bench_log_next(&run->log, &block, err)) == 1) {
		if (block.epoch != p->epoch || block.eval != (p->eval != 0))
			continue;
		rc = add_block(run, phase, &block, &load_ns, &sum[4], err);
		wall += block.wall;
		p->steps_counted += run->blocks[0].nr_inside; /* the same of all accelerators */
		p->started = p->started ? p->started : block.started;
		p->ended = block.ended;
	}
	if (rc < 0) {
		shoal_comm_fail(run->comm, err->msg);
		return rc;
	}
	for (uint64_t a = 0; a < run->nr_here; a++) {
		struct bench_figures f = bench_mean_figures(&run->means[a]);

		sum[0] += (uint64_t)(f.au * AU_PARTS + 0.5);
		sum[1] += (uint64_t)(f.au_planned * AU_PARTS + 0.5);
		sum[2] += (uint64_t)(f.throughput * RATE_PARTS + 0.5);
	}
	sum[3] = load_ns;
	slowest = with_rank(load_ns, run->rank);
	rc = shoal_comm_reduce(run->comm, SHOAL_COMM_SUM, sum, SHOAL_ARRAY_LEN(sum), err);
	if (rc == 0)
		rc = shoal_comm_reduce(run->comm, SHOAL_COMM_MAX, &slowest, 1, err);
	if (rc < 0)
		return rc;
	p->figures = (struct bench_figures){ .au = (double)sum[0] / AU_PARTS / (double)run->nr_all,
					     .au_planned = (double)sum[1] / AU_PARTS /
							   (double)run->nr_all,
					     .throughput = (double)sum[2] / RATE_PARTS };
	p->errors = sum[4];
	/* The tally is that of the last block; what was left out before is in the record. */
	if (p->errors > 0)
		p->proof = BENCH_WRONG;
	p->seconds = (double)wall * 1e-9;
	p->wait_share = wall ? (double)sum[3] / ((double)wall * (double)run->nr_all) : 0;
	p->slowest.rank = slowest & ((UINT64_C(1) << RANK_BITS) - 1);
	p->slowest.seconds = (double)(slowest >> RANK_BITS) * 1e-6 / (double)run->nr_here;
	return 0;
}

static struct bench_latency latency_of(const struct load_histogram *h)
{
	struct bench_latency l = { .p50 = (double)load_histogram_at(h, 0.5) * 1e-3,
				   .p90 = (double)load_histogram_at(h, 0.9) * 1e-3,
				   .p99 = (double)load_histogram_at(h, 0.99) * 1e-3,
				   .p999 = (double)load_histogram_at(h, 0.999) * 1e-3,
				   .max = (double)load_histogram_at(h, 1) * 1e-3 };

	l.known = l.max > 0;
	return l;
}

static void take_remote(const struct load_remote *r, struct bench_phase *p)
{
	p->nr_requests = r->nr_requests;
	p->nr_retries = r->nr_retries;
	p->nr_throttled = r->nr_throttled;
	p->bytes_remote = r->bytes;
	p->first_byte = latency_of(&r->first_ns);
	p->request = latency_of(&r->total_ns);
}

/* From the tally of all ranks. */
static void take_tally(const struct run *run, const struct phase *phase, bool device_told)
{
	const struct bench_tally *t = &run->tally;
	struct bench_phase *p = phase->p;

	p->samples = t->samples;
	p->bytes_asked = t->bytes_asked;
	p->bytes_delivered = t->bytes_delivered;
	p->device_told = device_told;
	p->bytes_device = t->bytes_device;
	p->nr_pages = t->nr_pages;
	p->nr_cached = t->nr_cached;
	p->nr_dropped = t->nr_dropped;
	p->nr_kept = t->nr_kept;
	p->order_digest[0] = t->got[2];
	p->order_digest[1] = t->got[3];
	p->proof = bench_tally_exactly_once(t) ? BENCH_PROVEN : BENCH_WRONG;
	/* A rank may have taken a batch more than others; or there was nothing left to read. */
	if ((phase->stopped && p->steps < phase->steps) || phase->nr_done == 0)
		p->proof = BENCH_NOT_PROVEN;
	p->latency = latency_of(&t->latency);
	p->open = latency_of(&t->open);
	p->read = latency_of(&t->read);
	take_remote(&t->remote, p);
	p->queue_depth = p->block_seconds > 0 ? (double)t->latency_ns * 1e-9 / p->block_seconds : 0;
	p->cpu_us = t->samples ? (double)t->cpu_ns * 1e-3 / (double)t->samples : 0;
}

/* Collective: which sample took longest, of all ranks. */
static int find_slowest(struct run *run, struct phase *phase, struct shoal_err *err)
{
	uint64_t largest = with_rank(phase->slowest_ns, run->rank);
	int rc = shoal_comm_reduce(run->comm, SHOAL_COMM_MAX, &largest, 1, err);
	struct bench_phase *p = phase->p;
	uint64_t file = 0, index = 0;
	char name[SHOAL_NAME_MAX + 1] = "";
	size_t len;

	if (rc < 0)
		return rc;
	p->slowest.sample_rank = largest & ((UINT64_C(1) << RANK_BITS) - 1);
	p->slowest.sample_seconds = (double)(largest >> RANK_BITS) * 1e-6;
	p->slowest.sample = phase->slowest_sample;
	rc = shoal_comm_broadcast(run->comm, (int)p->slowest.sample_rank, &p->slowest.sample,
				  sizeof(p->slowest.sample), err);
	if (rc == 0 &&
	    shoal_catalog_locate(phase->part->cat, p->slowest.sample, &file, &index) == 0 &&
	    shoal_catalog_name(phase->part->cat, file, name) > 0) {
		len = strlen(name);
		snprintf(p->slowest.name, sizeof(p->slowest.name), "%s",
			 name + (len >= sizeof(p->slowest.name) ? len + 1 - sizeof(p->slowest.name)
								: 0));
		for (char *c = p->slowest.name; *c; c++) /* it will be shown on terminals */
			if ((unsigned char)*c < 0x20 || *c == 0x7f)
				*c = '?';
	}
	return rc;
}

/* While the loaders are open and their buffers have been read into: what this rank takes most. */
static void note_memory(struct run *run, const struct phase *phase)
{
	struct shoal_load_stats stats;
	uint64_t pool;

	shoal_loader_stats(phase->loader, &stats);
	pool = stats.pool_bytes;
	if (run->loader && run->loader != phase->loader) { /* that of training waits meanwhile */
		shoal_loader_stats(run->loader, &stats);
		pool += stats.pool_bytes;
	}
	run->pool_bytes = shoal_max(run->pool_bytes, pool);
	run->pss_bytes = shoal_max(run->pss_bytes, bench_pss_bytes());
}

/* Words for what could not be read: of rank 0 first. */
static int take_errors(void *self, int from, uint64_t off, uint64_t total, const void *data,
		       size_t len, struct shoal_err *err)
{
	struct run *run = self;
	struct bench_result *r = run->result;
	const char *words = data;

	if (off != 0 || len != total || len % BENCH_ERROR_BYTES != 0)
		return shoal_fail(err, -EPROTO, "rank %d names its errors in another way", from);
	for (; len > 0 && r->nr_errors < BENCH_ERRORS_NAMED; len -= BENCH_ERROR_BYTES) {
		char *to = r->errors[r->nr_errors++];

		if (run->nr_ranks > 1)
			snprintf(to, sizeof(r->errors[0]), "rank %d: %.*s", from,
				 (int)BENCH_ERROR_BYTES, words);
		else
			snprintf(to, sizeof(r->errors[0]), "%.*s", (int)BENCH_ERROR_BYTES, words);
		words += BENCH_ERROR_BYTES;
	}
	return 0;
}

/* Collective: rank 0 keeps the first of all ranks' errors. */
static int name_errors(struct run *run, const struct phase *phase, struct shoal_err *err)
{
	struct shoal_load_stats stats;
	struct shoal_comm_blob blob = { .data = stats.first_errors };

	_Static_assert(sizeof(stats.first_errors[0]) == BENCH_ERROR_BYTES,
		       "as the loader has them");
	shoal_loader_stats(phase->loader, &stats);
	blob.len =
		BENCH_ERROR_BYTES * shoal_min(stats.nr_errors, SHOAL_ARRAY_LEN(stats.first_errors));
	return shoal_comm_gather(run->comm, &blob, 0, 65536, take_errors, run, err);
}

/* Collective: after the last step. */
static int settle(struct run *run, struct phase *phase, const struct bench_meter *meter,
		  struct shoal_err *err)
{
	uint64_t wall = bench_now() - phase->started;
	int rc = 0;

	bench_meter_stop(meter, &run->tally);
	note_memory(run, phase);
	if (phase->nr_done > 0)
		/* By one clock, so that times between these are those that were measured. */
		rc = bench_log_end(&run->log, phase->nr_done, wall, phase->started_at + wall, err);
	if (rc < 0) {
		shoal_comm_fail(run->comm, err->msg);
		return rc;
	}
	rc = bench_tally_add_up(&run->tally, run->comm, phase->loader, phase->nr_done, err);
	if (rc < 0)
		return rc;
	phase->p->steps = phase->first_step + phase->nr_done;
	phase->p->block_seconds = (double)wall * 1e-9;
	take_tally(run, phase, meter->device_told);
	rc = find_slowest(run, phase, err);
	if (rc == 0 && run->tally.errors > 0) /* on all ranks, or on none */
		rc = name_errors(run, phase, err);
	return rc < 0 ? rc : run_figures(run, phase, err);
}

/* The block begins when all are ready; the first step fills the pipeline. */
static int start_block(struct run *run, struct phase *phase, struct shoal_err *err)
{
	struct bench_log_block block = { .epoch = phase->p->epoch,
					 .eval = phase->p->eval != 0,
					 .first_step = phase->first_step,
					 .steps_due = phase->steps };
	int rc = shoal_comm_barrier(run->comm, err);

	if (rc < 0)
		return rc;
	phase->started = bench_now();
	block.started = phase->started_at = run_wall_clock();
	rc = bench_log_start(&run->log, &block, err);
	if (rc == 0)
		rc = shoal_loader_epoch(phase->loader, phase->p->epoch - 1, err);
	if (rc == -ECANCELED)
		rc = 0; /* the first step will tell the others */
	if (rc < 0)
		shoal_comm_fail(run->comm, err->msg);
	return rc;
}

int run_phase(struct run *run, struct phase *phase, struct shoal_err *err)
{
	struct bench_meter meter;
	int rc = 0;

	memset(&run->tally, 0, sizeof(run->tally));
	if (run->o->drop_cache)
		rc = bench_drop_cache(&run->tally, run->comm, phase->part->cat, run->o->load.store,
				      run->o->stop, err);
	if (rc == -ECANCELED)
		rc = 0;
	if (rc < 0) {
		shoal_comm_fail(run->comm, err->msg);
		return rc;
	}
	for (uint64_t a = 0; run->workers && a < run->nr_here; a++)
		memset(run->workers[a].free_at, 0, run->workers[a].nr * sizeof(uint64_t));
	bench_meter_start(&meter);
	rc = start_block(run, phase, err);
	if (rc == 0)
		rc = run_steps(run, phase, err);
	give_back(phase);
	return rc < 0 ? rc : settle(run, phase, &meter, err);
}
