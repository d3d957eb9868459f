/* One phase: an epoch of training, or an evaluation. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "run/run_private.h"

/* Minimum interval between progress calls. */
#define SHOW_NS 200000000u

/* A figure and its rank are packed into one number, so that the maximum identifies its rank. */
#define RANK_BITS 20u

/* ---- The order and the loader ---- */

/* The mean number of samples per file, rounded up. */
static uint64_t unit_of(const struct run_data_part *part)
{
	return part->nr_files ? u64_divide_up(part->nr_samples, part->nr_files) : 1;
}

enum run_order { RUN_SEQUENTIAL, RUN_GLOBAL, RUN_FILES, RUN_PIECES };

/*
 * DLIO shuffles files, samples, or both. With one sample per file these are the same. TensorFlow
 * reads containers from their start and shuffles what was read: see piece_of().
 */
static enum run_order order_of(const struct workload *w, const struct run_data_part *part)
{
	bool files = w->reader.file_shuffle != WORKLOAD_SHUFFLE_OFF;
	bool samples = w->reader.sample_shuffle != WORKLOAD_SHUFFLE_OFF;

	if (!files && !samples)
		return RUN_SEQUENTIAL;
	if (unit_of(part) == 1 || (samples && w->framework == WORKLOAD_PYTORCH))
		return RUN_GLOBAL;
	return samples ? RUN_PIECES : RUN_FILES;
}

const char *run_order_name(const struct workload *w, const struct run_data_part *part)
{
	static const char *const names[] = { [RUN_SEQUENTIAL] = "sequential",
					     [RUN_GLOBAL] = "global",
					     [RUN_FILES] = "files",
					     [RUN_PIECES] = "pieces" };

	return names[order_of(w, part)];
}

#define PIECE (UINT64_C(1) << 20) /* bytes: the longest read of several samples */

/*
 * The samples of a piece. If samples of containers are shuffled, pieces of consecutive samples,
 * about PIECE bytes each, are shuffled over the dataset, and a batch is taken from as many pieces
 * as it needs. So a piece needs one read or, where a batch ends in it, two; not one per sample.
 */
static uint64_t piece_of(const struct run_data_part *part)
{
	double each = part->bytes / (double)part->nr_samples;

	return each > 0 && each < (double)PIECE ? (uint64_t)((double)PIECE / each) : 1;
}

int run_open_loader(struct run *run, const struct phase *phase, struct shoal_loader **ret_loader,
		    struct shoal_err *err)
{
	static const enum shoal_mode modes[] = { [RUN_SEQUENTIAL] = SHOAL_SEQUENTIAL,
						 [RUN_GLOBAL] = SHOAL_GLOBAL,
						 [RUN_FILES] = SHOAL_FILES,
						 [RUN_PIECES] = SHOAL_FILES };
	const struct workload *w = run->w;
	uint64_t unit = unit_of(phase->part);
	enum run_order order = order_of(w, phase->part);
	struct shoal_order_spec spec = {
		.mode = modes[order],
		.remainder = SHOAL_DROP,
		.seed = run->state.seed,
		.frozen = !w->train.seed_change_epoch,
		.nr_samples = phase->part->nr_samples,
		.unit = order == RUN_PIECES ? piece_of(phase->part) : unit,
		.nr_ranks = run->nr_ranks,
		.batch = phase->take * run->nr_here,
		.consumed = run_taken_before(run, phase, phase->first_step) * run->nr_all,
	};
	struct shoal_load_options load = run->load;

	/* Each accelerator reads on in one place, in containers of its own unless pieces of all are
	 * shuffled. */
	if (unit > 1 && order != RUN_GLOBAL) {
		spec.lanes = run->nr_all;
		spec.lane_batch = phase->take;
	}
	load.first = phase->part->first_sample;
	if (run_loader_batches(phase, 1) > 1) /* a step has several, including those before them */
		load.prefetch = (unsigned)u64_min(run_loader_batches(phase, load.prefetch) +
							  run_loader_batches(phase, 1),
						  65536);
	return shoal_loader_open(phase->part->cat, &spec, run->rank, &load, ret_loader, err);
}

/* ---- One step ---- */

/*
 * Limited to a year, which is longer than anyone waits and far from where sums of times would wrap.
 */
static uint64_t seconds_to_ns(double seconds)
{
	return (uint64_t)(fmin(fmax(seconds, 0), 31536000.0) * 1e9);
}

/*
 * When each accelerator's part of the batch was read and preprocessed. Returns the time of the last
 * read.
 */
static uint64_t note_ready(struct run *run, struct phase *phase, const struct shoal_batch *batch,
			   uint64_t step, uint64_t first)
{
	double rows = (double)phase->part->nr_rows / (double)phase->part->nr_samples;
	uint64_t last = 0;

	for (size_t i = 0; i < batch->nr; i++) {
		const struct load_request *r = load_request_of(batch, i);
		uint64_t a = i / phase->take, took = r->finished - r->started;
		uint64_t ready = r->finished;

		last = u64_max(last, r->finished);
		run->steps[a].errors += batch->sample[i].error != 0;
		if (!batch->sample[i].error)
			series_sample(run->series, r->started, took, batch->sample[i].id);
		if (took > phase->slowest_ns && !batch->sample[i].error) {
			phase->slowest_ns = took;
			phase->slowest_sample = batch->sample[i].id;
		}
		if (run->workers) {
			uint64_t key =
				workload_key(run->state.seed ^ UINT64_C(0x707265),
					     (uint64_t)phase->p->epoch << 1 | phase->p->eval, step,
					     run->rank * run->nr_here * phase->batch + first + i);
			double s = rows * workload_time_draw(&run->w->reader.preprocess_time, key);

			ready = run_workers_take(&run->workers[a], r->finished, seconds_to_ns(s));
		}
		run->ready[a] = u64_max(run->ready[a], ready);
	}
	return last;
}

static void draw_compute(struct run *run, const struct phase *phase, uint64_t step, uint64_t asked)
{
	for (uint64_t a = 0; a < run->nr_here; a++) {
		uint64_t key = workload_key(run->state.seed,
					    (uint64_t)phase->p->epoch << 1 | phase->p->eval, step,
					    run->rank * run->nr_here + a);

		run->steps[a] = (struct run_step){
			.asked = asked - phase->started,
			.planned = seconds_to_ns(workload_time_draw(phase->compute, key)),
		};
	}
}

/* Add an explanation to an error about files that differ from the catalog. */
static int explain_stale(int rc, struct shoal_err *err)
{
	struct shoal_err why = *err;

	if (rc == -ENOENT || rc == -ENODATA || rc == -EFBIG)
		err_describe(err,
			     "%.600s: the files changed since they were indexed or generated; "
			     "index or generate them again",
			     why.msg);
	return rc;
}

/* Return the first @nr of the batches that are held to the loader. */
static void return_batches(struct phase *phase, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		shoal_loader_give_back(phase->loader, phase->held[i]);
	phase->nr_held -= nr;
	if (nr > 0 && phase->nr_held > 0)
		memmove(phase->held, phase->held + nr,
			phase->nr_held * sizeof(struct shoal_batch *));
}

/*
 * The next batch, which is then held. *@nr_before of the held batches belong to the previous step.
 */
static int run_take_batch(struct phase *phase, size_t *nr_before, struct shoal_err *err)
{
	const struct shoal_batch *batch = NULL;
	int rc = shoal_loader_next(phase->loader, &batch, err);

	if (rc == -EBUSY && *nr_before > 0) { /* the memory limit has no room for both */
		return_batches(phase, *nr_before);
		*nr_before = 0;
		rc = shoal_loader_next(phase->loader, &batch, err);
	}
	if (rc > 0)
		phase->held[phase->nr_held++] = batch;
	return rc;
}

/*
 * Take the batches of a step: one, or as many groups as it needs. Returns 1, 0 if stopped, or an
 * error; and when the last sample was read.
 */
static int run_take_step(struct run *run, struct phase *phase, uint64_t step, size_t *nr_before,
			 uint64_t *ret_read, struct shoal_err *err)
{
	uint64_t nr =
		(run_taken_before(run, phase, step + 1) - run_taken_before(run, phase, step)) /
		phase->take;
	int rc = 1;

	memset(run->ready, 0, (size_t)run->nr_here * sizeof(*run->ready));
	for (uint64_t i = 0; i < nr && rc == 1; i++) {
		uint64_t asked = run->o->trace ? clock_now() : 0;
		const struct shoal_batch *batch;

		rc = run_take_batch(phase, nr_before, err);
		if (rc == -ECANCELED)
			return 0;
		if (rc == 0)
			return err_set(err, -EPROTO,
				       "the epoch ended at step %" PRIu64 " of %" PRIu64, step,
				       phase->steps);
		if (rc < 0)
			return explain_stale(rc, err);
		batch = phase->held[phase->nr_held - 1];
		if (run->o->trace)
			trace_batch(run->o->trace, batch, asked, clock_now());
		*ret_read = u64_max(*ret_read, note_ready(run, phase, batch, step, i * batch->nr));
		load_tally_batch(&run->tally, batch);
		rc = 1;
	}
	return rc;
}

/* Load and compute. Returns 1, 0 if stopped, or an error. */
static int load_and_compute(struct run *run, struct phase *phase, struct shoal_err *err)
{
	uint64_t step = phase->first_step + phase->nr_done, asked = clock_now(), read = 0, until;
	size_t nr_before = phase->nr_held;
	int rc;

	if (stop_requested(run->o->stop))
		return 0;
	draw_compute(run, phase, step, asked);
	rc = run_take_step(run, phase, step, &nr_before, &read, err);
	if (rc != 1)
		return rc;
	if (!run->first_batch)
		run->first_batch = clock_now();
	until = run_step_plan(run->steps, run->ready, (size_t)run->nr_here, asked, read,
			      clock_now());
	/*
	 * The previous batch is returned only now, so that the loader reads while the accelerators
	 * sleep and not while the ranks meet; the number of batches read ahead is still that of the
	 * workload.
	 */
	if (phase->nr_held >
	    nr_before) /* the rows of its last group may be all that this step needs */
		return_batches(phase, nr_before);
	rc = run_sleep_until(until, run->o->stop) ? 1 : 0;
	run_step_done(run->steps, (size_t)run->nr_here, asked, clock_now());
	return rc;
}

static uint64_t with_rank(uint64_t ns, uint64_t rank)
{
	return u64_min(ns / 1000, UINT64_MAX >> RANK_BITS) << RANK_BITS | rank;
}

/*
 * The barrier after a step. It also finds out whether all ranks have done it and none was stopped.
 */
static int reduce_step(struct run *run, struct phase *phase, bool done, bool *ret_all_done,
		       struct shoal_err *err)
{
	uint64_t least[3] = { done, !stop_requested(run->o->stop), UINT64_MAX }, load = 0;
	int rc;

	for (uint64_t a = 0; done && a < run->nr_here; a++)
		load = u64_max(load, run->steps[a].load);
	least[2] -= with_rank(load, run->rank);
	rc = comm_fast_reduce(run->fast, COMM_MIN, least, ARRAY_LEN(least), err);
	*ret_all_done = least[0] != 0;
	phase->stopped = least[0] == 0 || least[1] == 0;
	phase->step_slowest = UINT64_MAX - least[2];
	return rc;
}

/* ---- Progress ---- */

static void add_to_progress(const struct run *run, struct phase *phase)
{
	for (uint64_t a = 0; a < run->nr_here; a++) {
		const struct run_step *s = &run->steps[a];

		if (phase->nr_done < run->w->output.exclude_start_steps) {
			phase->outside_ns += s->load + s->compute;
			continue;
		}
		phase->compute_ns += s->compute;
		phase->load_ns += s->load;
	}
}

/* Record the step in the time series, and what it was given in the audit. */
static void add_to_series(struct run *run, struct phase *phase)
{
	struct series_step step = { .now = clock_now(),
				    .samples = phase->delivered.samples,
				    .bytes = phase->delivered.bytes_delivered };

	run_audit_note(phase);
	step.samples = phase->delivered.samples - step.samples;
	step.bytes = phase->delivered.bytes_delivered - step.bytes;
	for (uint64_t a = 0; a < run->nr_here; a++) {
		const struct run_step *s = &run->steps[a];

		step.load += s->load;
		step.load_max = u64_max(step.load_max, s->load);
		step.compute += s->compute;
		step.errors += s->errors;
	}
	series_step(run->series, &step);
}

/* The rest of the run at the pace of this block. */
static double seconds_left(const struct run *run, const struct phase *phase, double step_seconds)
{
	uint64_t epochs = run->w->train.epochs - phase->p->epoch;
	double left = (double)(phase->steps - phase->first_step - phase->nr_done);

	if (phase->p->eval)
		return left * step_seconds + (double)epochs * run->plan.epoch_seconds;
	return (left + (double)epochs * (double)run->plan.steps) * step_seconds;
}

/* Epochs of training that are done, of all. */
static double done_share(const struct run *run, const struct phase *phase)
{
	double steps = (double)u64_max(1, phase->steps);
	double part = phase->p->eval ? 1 : (double)(phase->first_step + phase->nr_done) / steps;

	return ((double)phase->p->epoch - 1 + part) / (double)run->w->train.epochs;
}

static void run_show_progress(const struct run *run, struct phase *phase)
{
	uint64_t now = clock_now(), wall = now - phase->started;
	uint64_t total = wall * run->nr_here - u64_min(wall * run->nr_here, phase->outside_ns);
	bool counted = phase->nr_done > run->w->output.exclude_start_steps;
	double seconds = (double)u64_max(wall, 1) * 1e-9;
	bool boundary = phase->nr_done == 0 || phase->first_step + phase->nr_done == phase->steps;
	struct shoal_load_stats stats;
	struct run_progress p;

	if (run->rank != 0 || !run->o->progress || (now - phase->shown < SHOW_NS && !boundary))
		return;
	if (!boundary) /* the first step of a block is shown at once */
		phase->shown = now;
	shoal_loader_stats(phase->loader, &stats);
	p = (struct run_progress){
		.epoch = phase->p->epoch,
		.nr_epochs = run->w->train.epochs,
		.eval = phase->p->eval != 0,
		.step = phase->first_step + phase->nr_done,
		.steps = phase->steps,
		.boundary = boundary,
		.au = counted && total ? 100.0 * (double)phase->compute_ns / (double)total
				       : (double)NAN,
		.samples_per_second =
			(double)(phase->nr_done * phase->batch * run->nr_all) / seconds,
		.bytes_per_second = (double)stats.bytes_delivered * (double)run->nr_ranks / seconds,
		.samples = phase->nr_done * phase->batch * run->nr_all,
		.share = done_share(run, phase),
		.wait_share = total ? (double)phase->load_ns / (double)total : 0,
		.slowest_rank = phase->step_slowest & ((UINT64_C(1) << RANK_BITS) - 1),
		.slowest_seconds = (double)(phase->step_slowest >> RANK_BITS) * 1e-6,
	};
	p.seconds_left = seconds_left(run, phase, seconds / (double)u64_max(phase->nr_done, 1));
	run->o->progress(run->o->self, &p);
}

static int phase_run_steps(struct run *run, struct phase *phase, struct shoal_err *err)
{
	run_show_progress(run, phase);
	while (phase->first_step + phase->nr_done < phase->steps && !phase->stopped) {
		bool all_done = false;
		int rc = load_and_compute(run, phase, err);

		if (rc < 0) {
			comm_fail(run->comm, err);
			return rc;
		}
		rc = reduce_step(run, phase, rc == 1, &all_done, err);
		if (rc == 0 && all_done) {
			rc = step_log_step(&run->log, run->steps, err);
			add_to_progress(run, phase);
			phase->nr_done++;
			add_to_series(run, phase);
			run_show_progress(run, phase);
			if (rc == 0 && run->o->watch)
				rc = run_watch_poll(run->o->watch, err);
			if (rc < 0)
				comm_fail(run->comm, err);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- The results of a phase ---- */

static int block_add_step(void *self, uint32_t accelerator, const struct run_step *step)
{
	struct run *run = self;

	step_block_add(&run->blocks[accelerator], step);
	return 0;
}

/* The sums behind the figures of a phase: over accelerators, then over ranks. */
struct phase_sums {
	uint64_t au, au_planned, rate; /* in parts */
	uint64_t load, compute, planned, errors;
};

static int phase_add_block(struct run *run, const struct phase *phase,
			   const struct step_log_block *block, struct phase_sums *sum,
			   struct shoal_err *err)
{
	struct step_window window =
		step_log_window(block, (struct step_window){ run->w->output.exclude_start_steps,
							     run->w->output.exclude_end_steps });
	int rc;

	for (uint64_t a = 0; a < run->nr_here; a++)
		step_block_start(&run->blocks[a], block->nr_steps, window);
	rc = step_log_read(&run->log, block, block_add_step, run, err);
	for (uint64_t a = 0; rc == 0 && a < run->nr_here; a++) {
		const struct step_block *b = &run->blocks[a];
		struct step_figures f = block->eval
						? step_eval_figures(b, phase->batch, block->wall)
						: step_block_figures(b, phase->batch, block->wall);

		/* Weighted by the steps that count: a block without any has no weight. */
		step_mean_add(&run->means[a], &f, block->eval ? b->nr_added : b->nr_inside);
		sum->load += b->load;
		sum->compute += b->compute;
		sum->planned += b->planned;
		sum->errors += b->errors;
	}
	return rc;
}

/* Sums over ranks use integers: a billionth of a percent, a millionth of a sample/s. */
#define AU_PARTS   1e9
#define RATE_PARTS 1e6

static struct run_time time_of(const struct run *run, const struct phase_sums *sum, double seconds)
{
	double one = 1e-9 / (double)run->nr_all;
	struct run_time t = { .planned = (double)sum->planned * one,
			      .late = (double)(sum->compute - u64_min(sum->planned, sum->compute)) *
				      one,
			      .data = (double)sum->load * one };

	t.ranks = fmax(0, seconds - t.planned - t.late - t.data);
	return t;
}

/* Write the figures from the sums over all ranks. */
static void take_figures(const struct run *run, const struct phase_sums *sum, uint64_t wall,
			 struct run_result_phase *p)
{
	double nr = (double)run->nr_all;

	p->figures = (struct step_figures){ .au = (double)sum->au / AU_PARTS / nr,
					    .au_planned = (double)sum->au_planned / AU_PARTS / nr,
					    .throughput = (double)sum->rate / RATE_PARTS };
	p->errors = sum->errors;
	/* The tally covers the last block; unread samples of earlier blocks are in the step log. */
	if (p->errors > 0)
		p->proof = RUN_WRONG;
	p->seconds = (double)wall * 1e-9;
	p->wait_share = wall ? (double)sum->load / ((double)wall * nr) : 0;
	p->time = time_of(run, sum, p->seconds);
}

int run_figures(struct run *run, struct phase *phase, struct shoal_err *err)
{
	struct step_log_block block = { 0 };
	struct run_result_phase *p = phase->p;
	struct phase_sums sum = { 0 };
	uint64_t wall = 0, slowest;
	int rc = 0;

	p->steps_counted = 0;
	memset(run->means, 0, (size_t)run->nr_here * sizeof(*run->means));
	while (rc >= 0 && (rc = step_log_next(&run->log, &block, err)) == 1) {
		if (block.epoch != p->epoch || block.eval != (p->eval != 0))
			continue;
		rc = phase_add_block(run, phase, &block, &sum, err);
		wall += block.wall;
		p->steps_counted += run->blocks[0].nr_inside; /* the same for all accelerators */
		p->started = p->started ? p->started : block.started;
		p->ended = block.ended;
	}
	if (rc < 0) {
		comm_fail(run->comm, err);
		return rc;
	}
	for (uint64_t a = 0; a < run->nr_here; a++) {
		struct step_figures f = step_mean_figures(&run->means[a]);

		sum.au += (uint64_t)(f.au * AU_PARTS + 0.5);
		sum.au_planned += (uint64_t)(f.au_planned * AU_PARTS + 0.5);
		sum.rate += (uint64_t)(f.throughput * RATE_PARTS + 0.5);
	}
	slowest = with_rank(sum.load, run->rank);
	rc = comm_reduce(run->comm, COMM_SUM, (uint64_t *)(void *)&sum,
			 sizeof(sum) / sizeof(uint64_t), err);
	if (rc == 0)
		rc = comm_reduce(run->comm, COMM_MAX, &slowest, 1, err);
	if (rc < 0)
		return rc;
	take_figures(run, &sum, wall, p);
	p->slowest.rank = slowest & ((UINT64_C(1) << RANK_BITS) - 1);
	p->slowest.seconds = (double)(slowest >> RANK_BITS) * 1e-6 / (double)run->nr_here;
	return 0;
}

static struct run_latency latency_of(const struct histogram *h)
{
	struct run_latency l = { .p50 = (double)histogram_at(h, 0.5) * 1e-3,
				 .p90 = (double)histogram_at(h, 0.9) * 1e-3,
				 .p99 = (double)histogram_at(h, 0.99) * 1e-3,
				 .p999 = (double)histogram_at(h, 0.999) * 1e-3,
				 .max = (double)histogram_at(h, 1) * 1e-3 };

	l.known = l.max > 0;
	return l;
}

static void take_remote(const struct load_remote *r, struct run_result_phase *p)
{
	p->nr_requests = r->nr_requests;
	p->nr_retries = r->nr_retries;
	p->nr_throttled = r->nr_throttled;
	p->bytes_remote = r->bytes;
	p->first_byte = latency_of(&r->first_ns);
	p->request = latency_of(&r->total_ns);
}

/* Copy the figures from the tally of all ranks. */
static void take_tally(const struct run *run, const struct phase *phase, bool device_told)
{
	const struct load_tally *t = &run->tally;
	struct run_result_phase *p = phase->p;

	p->samples = t->samples;
	p->bytes_asked = t->bytes_asked;
	p->bytes_delivered = t->bytes_delivered;
	p->nr_reads = t->nr_reads;
	p->nr_opens = t->nr_opens;
	p->bytes_read = t->bytes_read;
	p->device_told = device_told;
	p->bytes_device = t->bytes_device;
	p->cached_share =
		load_cached_share(t, run->result->device_known, (double)unit_of(phase->part));
	p->nr_dropped = t->nr_dropped;
	p->nr_kept = t->nr_kept;
	p->latency = latency_of(&t->latency);
	p->open = latency_of(&t->open);
	p->read = latency_of(&t->read);
	take_remote(&t->remote, p);
	p->queue_depth = p->block_seconds > 0 ? (double)t->latency_ns * 1e-9 / p->block_seconds : 0;
	p->cpu_us = t->samples ? (double)t->cpu_ns * 1e-3 / (double)t->samples : 0;
}

/* Collective: find the slowest sample of all ranks. */
static int find_slowest(struct run *run, struct phase *phase, struct shoal_err *err)
{
	uint64_t largest = with_rank(phase->slowest_ns, run->rank);
	int rc = comm_reduce(run->comm, COMM_MAX, &largest, 1, err);
	struct run_result_phase *p = phase->p;
	uint64_t file = 0, index = 0;
	char name[SHOAL_NAME_MAX + 1] = "";
	size_t len;

	if (rc < 0)
		return rc;
	p->slowest.sample_rank = largest & ((UINT64_C(1) << RANK_BITS) - 1);
	p->slowest.sample_seconds = (double)(largest >> RANK_BITS) * 1e-6;
	p->slowest.sample = phase->slowest_sample;
	rc = comm_broadcast(run->comm, (int)p->slowest.sample_rank, &p->slowest.sample,
			    sizeof(p->slowest.sample), err);
	if (rc == 0 &&
	    shoal_catalog_locate(phase->part->cat, p->slowest.sample, &file, &index) == 0 &&
	    shoal_catalog_name(phase->part->cat, file, name) > 0) {
		len = strlen(name);
		snprintf(p->slowest.name, sizeof(p->slowest.name), "%s",
			 name + (len >= sizeof(p->slowest.name) ? len + 1 - sizeof(p->slowest.name)
								: 0));
		for (char *c = p->slowest.name; *c; c++) /* it is shown on terminals */
			if ((unsigned char)*c < 0x20 || *c == 0x7f)
				*c = '?';
	}
	return rc;
}

/* Record this rank's largest memory, while the loaders are open and their buffers touched. */
static void note_memory(struct run *run, const struct phase *phase)
{
	struct shoal_load_stats stats;
	uint64_t pool;

	shoal_loader_stats(phase->loader, &stats);
	pool = stats.pool_bytes;
	if (run->loader && run->loader != phase->loader) { /* that of training is idle meanwhile */
		shoal_loader_stats(run->loader, &stats);
		pool += stats.pool_bytes;
	}
	run->pool_bytes = u64_max(run->pool_bytes, pool);
	run->pss_bytes = u64_max(run->pss_bytes, run_pss_bytes());
}

/* Receives the messages about unread samples, those of rank 0 first. */
static int take_errors(void *self, int from, uint64_t off, uint64_t total, const void *data,
		       size_t len, struct shoal_err *err)
{
	struct run *run = self;
	struct run_result *r = run->result;
	const char *words = data;

	if (off != 0 || len != total || len % RUN_ERROR_BYTES != 0)
		return err_set(err, -EPROTO,
			       "rank %d sent malformed error records (mixed Shoal versions?)",
			       from);
	for (; len > 0 && r->nr_errors < RUN_ERRORS_NAMED; len -= RUN_ERROR_BYTES) {
		char *to = r->errors[r->nr_errors++];

		if (run->nr_ranks > 1)
			snprintf(to, sizeof(r->errors[0]), "rank %d: %.*s", from,
				 (int)RUN_ERROR_BYTES, words);
		else
			snprintf(to, sizeof(r->errors[0]), "%.*s", (int)RUN_ERROR_BYTES, words);
		words += RUN_ERROR_BYTES;
	}
	return 0;
}

/* Collective: rank 0 keeps the first errors of all ranks. */
static int gather_errors(struct run *run, const struct phase *phase, struct shoal_err *err)
{
	struct shoal_load_stats stats;
	struct comm_blob blob = { .data = stats.first_errors };

	_Static_assert(sizeof(stats.first_errors[0]) == RUN_ERROR_BYTES, "as the loader has them");
	shoal_loader_stats(phase->loader, &stats);
	blob.len = RUN_ERROR_BYTES * u64_min(stats.nr_errors, ARRAY_LEN(stats.first_errors));
	return comm_gather(run->comm, &blob, 0, 65536, take_errors, run, err);
}

/* Collective: after the last step. */
static int phase_finish(struct run *run, struct phase *phase, const struct load_meter *meter,
			struct shoal_err *err)
{
	uint64_t wall = clock_now() - phase->started, last = phase->first_step + phase->nr_done;
	uint64_t nr_batches = (run_taken_before(run, phase, last) -
			       run_taken_before(run, phase, phase->first_step)) /
			      phase->take;
	int rc = 0;

	load_meter_stop(meter, &run->tally);
	series_pause(run->series, phase->started + wall);
	note_memory(run, phase);
	if (phase->nr_done > 0)
		/* From one clock, so that differences of these times are the measured ones. */
		rc = step_log_end(&run->log, phase->nr_done, wall, phase->started_at + wall, err);
	if (rc < 0) {
		comm_fail(run->comm, err);
		return rc;
	}
	rc = load_tally_add_up(&run->tally, run->comm, phase->loader, nr_batches, err);
	if (rc < 0)
		return rc;
	phase->p->steps = phase->first_step + phase->nr_done;
	phase->p->block_seconds = (double)wall * 1e-9;
	take_tally(run, phase, meter->device_told);
	rc = run_audit_take(run, phase, err);
	if (rc == 0)
		rc = find_slowest(run, phase, err);
	if (rc == 0 && run->tally.errors > 0) /* on all ranks, or on none */
		rc = gather_errors(run, phase, err);
	return rc < 0 ? rc : run_figures(run, phase, err);
}

/* A block begins when all ranks are ready; the first step fills the pipeline. */
static int start_block(struct run *run, struct phase *phase, struct shoal_err *err)
{
	struct step_log_block block = { .epoch = phase->p->epoch,
					.eval = phase->p->eval != 0,
					.first_step = phase->first_step,
					.steps_due = phase->steps };
	int rc = comm_barrier(run->comm, err);

	if (rc < 0)
		return rc;
	phase->started = clock_now();
	block.started = phase->started_at = clock_wall();
	rc = step_log_start(&run->log, &block, err);
	if (rc == 0)
		rc = shoal_loader_epoch(phase->loader, phase->p->epoch - 1, err);
	if (rc == 0)
		series_epoch(run->series, phase->started, phase->p->epoch, phase->p->eval != 0,
			     phase->first_step, phase->loader, phase->part->cat);
	if (rc == -ECANCELED)
		rc = 0; /* the first step tells the other ranks */
	if (rc < 0)
		comm_fail(run->comm, err);
	return rc;
}

int run_phase(struct run *run, struct phase *phase, struct shoal_err *err)
{
	struct load_meter meter;
	int rc = 0;

	memset(&run->tally, 0, sizeof(run->tally));
	if (run->o->drop_cache)
		rc = load_drop_cache(&run->tally, run->comm, phase->part->cat, run->o->load.store,
				     run->o->load.config, run->o->stop, err);
	if (rc == -ECANCELED)
		rc = 0;
	if (rc < 0) {
		comm_fail(run->comm, err);
		return rc;
	}
	for (uint64_t a = 0; run->workers && a < run->nr_here; a++)
		memset(run->workers[a].free_at, 0, run->workers[a].nr * sizeof(uint64_t));
	load_meter_start(&meter);
	rc = start_block(run, phase, err);
	if (rc == 0)
		rc = phase_run_steps(run, phase, err);
	return_batches(phase, phase->nr_held);
	return rc < 0 ? rc : phase_finish(run, phase, &meter, err);
}
