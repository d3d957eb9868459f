#include "bench/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/text.h"
#include "bench/lock.h"
#include "bench/run_inside.h"

int bench_run_log_path(const char *results, int rank, char *buf, size_t cap)
{
	if (snprintf(buf, cap, "%s/%s/steps.%d", results, BENCH_RUN_FOLDER, rank) >= (int)cap)
		return -ENAMETOOLONG;
	return 0;
}

void bench_run_forget(const char *results, int nr_ranks)
{
	char path[4096];

	for (int r = 0; r < nr_ranks; r++)
		if (bench_run_log_path(results, r, path, sizeof(path)) == 0)
			(void)!unlink(path);
	snprintf(path, sizeof(path), "%s/%s/state", results, BENCH_RUN_FOLDER);
	(void)!unlink(path);
	snprintf(path, sizeof(path), "%s/%s/lock", results, BENCH_RUN_FOLDER);
	(void)!unlink(path);
	snprintf(path, sizeof(path), "%s/%s", results, BENCH_RUN_FOLDER);
	(void)!rmdir(path);
}

bool bench_run_can_resume(const char *results)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s/state", results, BENCH_RUN_FOLDER);
	return access(path, F_OK) == 0;
}

int bench_run_check_data(const char *results, const char *data, bool *ret_kept,
			 struct shoal_err *err)
{
	char name[BENCH_DATA_NAME];
	struct run_state state;
	int rc = run_state_peek(results, &state, err);

	if (rc < 0)
		return rc;
	bench_data_name(data, name);
	if (strncmp(name, state.data, sizeof(state.data)) != 0)
		return shoal_fail(err, -ESTALE,
				  "the run to resume read '%.300s', and --data is '%.300s': resume "
				  "it with the same data, or start anew in another folder",
				  state.data, name);
	*ret_kept = state.kept != 0;
	return 0;
}

/* ---- One at a time ---- */

static int folder_path(const char *results, const char *name, char *buf, size_t cap,
		       struct shoal_err *err)
{
	if (snprintf(buf, cap, "%s/%s%s", results, BENCH_RUN_FOLDER, name) >= (int)cap)
		return shoal_fail(err, -ENAMETOOLONG, "the path of the results is too long");
	return 0;
}

static int make_folder(const char *results, struct shoal_err *err)
{
	char path[4096];
	int rc = folder_path(results, "", path, sizeof(path), err);

	if (rc == 0 && mkdir(path, 0777) < 0 && errno != EEXIST)
		rc = shoal_fail_errno(err, shoal_errno(), "cannot make '%s'", path);
	return rc;
}

int bench_run_lock(const char *results, int *ret_lock, struct shoal_err *err)
{
	char path[4096];
	int rc = folder_path(results, "/lock", path, sizeof(path), err);

	if (rc == 0)
		rc = -ENOENT;
	/* The holder may just be removing the folder. */
	for (int i = 0; rc == -ENOENT && i < 100; i++) {
		rc = make_folder(results, err);
		if (rc == 0)
			rc = bench_lock_take(path, ret_lock, err);
	}
	if (rc == -EBUSY)
		return shoal_fail(
			err, rc,
			"another run is writing to '%.500s': wait for it, or name another folder",
			results);
	return rc;
}

void bench_run_unlock(const char *results, int lock)
{
	if (lock < 0)
		return;
	if (!bench_run_can_resume(results))
		bench_run_forget(results, 0);
	close(lock);
}

/* ---- Which phases there are ---- */

static bool evaluates(const struct bench_workload *w, uint64_t epoch)
{
	uint64_t every = shoal_max(1, w->evaluation.every_epochs);

	return w->workflow.evaluation && w->dataset.nr_files_eval > 0 &&
	       epoch >= w->evaluation.after_epoch &&
	       (epoch - w->evaluation.after_epoch) % every == 0;
}

static size_t count_phases(const struct bench_workload *w)
{
	size_t nr = 0;

	for (uint64_t e = 1; e <= w->train.epochs; e++)
		nr += 1 + evaluates(w, e);
	return nr;
}

/* Phase number @i, from 0. */
static void name_phase(const struct bench_workload *w, size_t i, struct bench_phase *p)
{
	uint64_t e = 1;

	for (size_t at = 0;; e++) {
		size_t here = 1 + (size_t)evaluates(w, e);

		if (i < at + here) {
			*p = (struct bench_phase){ .epoch = (uint32_t)e, .eval = i > at };
			return;
		}
		at += here;
	}
}

/* ---- Starting, or going on ---- */

/*
 * What must be the same for a run to go on: the workload with all its values, the files, and how
 * they are read. Else the parts of an epoch would be measured in different ways.
 */
static uint64_t configuration(const struct run *run)
{
	const struct shoal_load_options *l = &run->load;
	const uint64_t how[] = { l->in_flight, l->prefetch, l->direct, l->engine, l->object_size,
				 l->slot, l->skip_errors, run->read_threads,
				 /* Bits, so that what was begun before there were more goes on. */
				 (uint64_t)run->o->drop_cache | (uint64_t)l->if_match << 1 };
	const char *store = l->store ? l->store : "";
	struct shoal_catalog_info info;
	uint64_t h = XXH3_64bits(run->w->yaml, strlen(run->w->yaml));

	shoal_catalog_info(run->o->data->cat, &info);
	h = XXH3_64bits_withSeed(info.digest, strlen(info.digest), h);
	h = XXH3_64bits_withSeed(store, strlen(store), h);
	return XXH3_64bits_withSeed(how, sizeof(how), h);
}

/* Rank 0: a run of its own, in a folder without another. */
static int start_anew(struct run *run, struct shoal_err *err)
{
	const struct bench_reader *reader = &run->w->reader;
	struct run_state *s = &run->state;

	*s = (struct run_state){ .configuration = configuration(run),
				 .nr_ranks = run->nr_ranks,
				 .nr_accelerators = run->nr_here,
				 .seed = run->w->train.seed,
				 .started = run_wall_clock(),
				 .kept = run->o->data->kept };
	bench_data_name(run->o->data_name, s->data);
	if (getrandom(&s->run, sizeof(s->run), 0) != (ssize_t)sizeof(s->run))
		s->run = s->started;
	if (reader->file_shuffle == BENCH_SHUFFLE_RANDOM ||
	    reader->sample_shuffle == BENCH_SHUFFLE_RANDOM)
		s->seed = bench_key(s->run, s->started, 0, 0);
	return run_state_save(run->o->results, s, run->result->phases, err);
}

/* Rank 0: as far as the phases that are finished. */
static int go_on(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	struct run_state *s = &run->state;
	int rc = run_state_load(run->o->results, s, run->result->phases, nr_phases, err);

	if (rc < 0)
		return rc;
	if (s->nr_ranks != run->nr_ranks || s->nr_accelerators != run->nr_here)
		return shoal_fail(err, -ESTALE,
				  "the run to resume had %" PRIu64 " rank%s of %" PRIu64
				  " accelerator%s: resume it with as many, or start anew in "
				  "another folder",
				  s->nr_ranks, shoal_plural(s->nr_ranks), s->nr_accelerators,
				  shoal_plural(s->nr_accelerators));
	if (s->configuration != configuration(run))
		return shoal_fail(
			err, -ESTALE,
			"the run to resume was of another workload, other values, other "
			"files, or read with other options (--store, --in-flight, "
			"--prefetch, --direct, --engine, --on-error, --if-match, --drop-cache): resume "
			"it with the same, or start anew in another "
			"folder");
	s->resumed++;
	return run_state_save(run->o->results, s, run->result->phases, err);
}

/* The last block of the record, if it is of this phase. Returns 1 and how many steps were done. */
static int last_block(const struct run *run, const struct bench_phase *p,
		      struct bench_log_block *ret_block, struct shoal_err *err)
{
	struct bench_log_block block = { 0 };
	int rc, found = 0;

	while ((rc = bench_log_next(&run->log, &block, err)) == 1) {
		found = block.epoch == p->epoch && block.eval == (p->eval != 0);
		*ret_block = block;
	}
	return rc < 0 ? rc : found;
}

/* The block is over after @nr_steps of its steps. */
static int cut_block(struct run *run, const struct bench_log_block *block, uint64_t nr_steps,
		     struct shoal_err *err)
{
	struct bench_log_block left = { .next_off = block->off };
	int rc = bench_log_cut(&run->log, block, nr_steps, err);

	if (rc < 0 || nr_steps == 0)
		return rc;
	rc = bench_log_next(&run->log, &left, err); /* it took no longer than what is left of it */
	if (rc == 1)
		rc = bench_log_end(&run->log, nr_steps, left.wall, left.ended, err);
	return rc;
}

/*
 * Collective: the steps of the phase that all ranks have recorded are done; what one has beyond
 * that is cut off. The part that is there gets an end.
 */
static int find_step(struct run *run, const struct bench_phase *p, uint64_t *ret_step,
		     struct shoal_err *err)
{
	struct bench_log_block block = { 0 };
	int found = last_block(run, p, &block, err), rc = 0;
	uint64_t done = found == 1 ? block.first_step + block.nr_steps : 0;

	if (found < 0) {
		shoal_comm_fail(run->comm, err->msg);
		return found;
	}
	rc = shoal_comm_reduce(run->comm, SHOAL_COMM_MIN, &done, 1, err);
	if (rc < 0)
		return rc;
	*ret_step = done;
	if (found == 1 && done < block.first_step)
		rc = shoal_fail(err, -EBADMSG, "the records of the ranks do not fit together");
	else if (found == 1 && (!block.whole || block.first_step + block.nr_steps > done))
		rc = cut_block(run, &block, done - block.first_step, err);
	if (rc < 0)
		shoal_comm_fail(run->comm, err->msg);
	return rc;
}

static int open_log(struct run *run, bool resumed, struct shoal_err *err)
{
	char path[4096];
	int rc = bench_run_log_path(run->o->results, (int)run->rank, path, sizeof(path));

	if (rc < 0)
		rc = shoal_fail(err, rc, "the path of the results is too long");
	else if (resumed)
		rc = bench_log_open(path, run->state.run, (uint32_t)run->nr_here, &run->log, err);
	else
		rc = bench_log_create(path, run->state.run, (uint32_t)run->nr_here, &run->log, err);
	if (rc < 0)
		shoal_comm_fail(run->comm, err->msg);
	return rc;
}

/* Collective. */
static int begin(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	int rc = 0;

	if (run->rank == 0) {
		rc = make_folder(run->o->results, err);
		if (rc == 0)
			rc = run->o->resume ? go_on(run, nr_phases, err) : start_anew(run, err);
		if (rc < 0) {
			shoal_comm_fail(run->comm, err->msg);
			return rc;
		}
		run->result->begun = true;
	}
	rc = shoal_comm_broadcast(run->comm, 0, &run->state, sizeof(run->state), err);
	/* All judge the run by all of its phases. */
	if (rc == 0 && run->state.nr_phases > 0)
		rc = shoal_comm_broadcast(
			run->comm, 0, run->result->phases,
			(size_t)run->state.nr_phases * sizeof(*run->result->phases), err);
	return rc < 0 ? rc : open_log(run, run->o->resume, err);
}

/* ---- All phases ---- */

static int take_memory(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	size_t nr = (size_t)run->nr_here;
	int rc = 0;

	/* For each accelerator of this process some 250 bytes, and its readers. */
	run->steps = calloc(nr, sizeof(*run->steps));
	run->ready = calloc(nr, sizeof(*run->ready));
	run->blocks = calloc(nr, sizeof(*run->blocks));
	run->means = calloc(nr, sizeof(*run->means));
	run->result->phases = calloc(nr_phases ? nr_phases : 1, sizeof(*run->result->phases));
	if (!run->steps || !run->ready || !run->blocks || !run->means || !run->result->phases)
		return shoal_fail(err, -ENOMEM, "out of memory");
	if (run->w->reader.preprocess_time.kind == BENCH_TIME_NONE)
		return 0;
	run->workers = calloc(nr, sizeof(*run->workers));
	if (!run->workers)
		return shoal_fail(err, -ENOMEM, "out of memory");
	for (size_t a = 0; rc == 0 && a < nr; a++)
		rc = bench_workers_init(&run->workers[a], (size_t)run->read_threads, err);
	return rc;
}

static void release(struct run *run)
{
	for (size_t a = 0; run->workers && a < run->nr_here; a++)
		bench_workers_release(&run->workers[a]);
	free(run->workers);
	free(run->steps);
	free(run->ready);
	free(run->blocks);
	free(run->means);
	bench_log_close(&run->log);
	shoal_comm_meeting_close(run->meeting);
	free(run);
}

/* Rank 0: the phase is over, and need not be run again. */
static int keep(struct run *run, const struct phase *phase, struct shoal_err *err)
{
	struct bench_result *r = run->result;
	int rc = 0;

	phase->p->partial = phase->stopped && phase->p->steps < phase->steps;
	if (phase->p->partial && phase->p->steps == 0)
		return 0; /* nothing of it was done */
	r->nr_phases++;
	if (!phase->p->partial)
		run->state.nr_phases = r->nr_phases;
	/* For a run that is resumed only to write its results. */
	memcpy(run->state.engine, r->engine, sizeof(run->state.engine));
	memcpy(run->state.detail, r->engine_detail, sizeof(run->state.detail));
	if (run->first_batch && !run->state.first_batch)
		run->state.first_batch = run->first_batch - run->o->began;
	if (run->rank != 0)
		return 0;
	if (!phase->p->partial)
		rc = run_state_save(run->o->results, &run->state, r->phases, err);
	if (rc < 0)
		shoal_comm_fail(run->comm, err->msg);
	return rc;
}

static int start_phase(struct run *run, struct phase *phase, uint64_t first_step,
		       struct shoal_err *err)
{
	const struct bench_workload *w = run->w;
	bool eval = phase->p->eval;
	int rc = 0;

	phase->part = eval ? &run->o->data->eval : &run->o->data->train;
	phase->batch = eval ? w->reader.batch_eval : w->reader.batch;
	phase->compute = eval ? &w->evaluation.eval_time : &w->train.computation_time;
	phase->steps = eval ? run->plan.steps_eval : run->plan.steps;
	phase->first_step = first_step;
	phase->p->steps_before = first_step;
	phase->p->steps_due = phase->steps;
	phase->loader = eval ? NULL : run->loader;
	if (!phase->loader)
		rc = run_open_loader(run, phase, &phase->loader, err);
	if (rc == 0 && !eval)
		run->loader = phase->loader;
	if (rc < 0)
		shoal_comm_fail(run->comm, err->msg);
	return rc;
}

static void note_engine(struct run *run, const struct phase *phase)
{
	struct shoal_load_stats stats;

	shoal_loader_stats(phase->loader, &stats);
	snprintf(run->result->engine, sizeof(run->result->engine), "%s", stats.engine);
	snprintf(run->result->engine_detail, sizeof(run->result->engine_detail), "%s",
		 stats.engine_detail);
}

/*
 * Closing waits for what is in flight, for ever where the storage hangs. A run that was stopped
 * leaves it to the caller, who has the results to write first. So it is after a failure, when
 * nobody is to wait at all.
 */
static void close_loader(struct run *run, struct shoal_loader *loader, bool was_stopped,
			 struct shoal_loader **ret_reading)
{
	if (was_stopped || (run->o->stop && __atomic_load_n(run->o->stop, __ATOMIC_RELAXED)))
		*ret_reading = loader;
	else
		shoal_loader_close(loader);
}

static int run_phases(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	struct bench_result *r = run->result;
	uint64_t first_step = 0;
	bool stopped = false;
	int rc = 0;

	r->nr_phases = (size_t)run->state.nr_phases;
	for (size_t i = r->nr_phases; rc == 0 && i < nr_phases && !stopped; i++) {
		struct phase phase = { .p = &r->phases[i] };

		name_phase(run->w, i, phase.p);
		first_step = 0;
		if (run->state.resumed)
			rc = find_step(run, phase.p, &first_step, err);
		if (rc == 0)
			rc = start_phase(run, &phase, first_step, err);
		if (rc == 0)
			rc = run_phase(run, &phase, err);
		if (rc == 0 && !r->engine[0])
			note_engine(run, &phase);
		if (rc == 0)
			rc = keep(run, &phase, err);
		stopped = phase.stopped;
		if (phase.p->eval && rc == 0)
			close_loader(run, phase.loader, stopped, &r->reading[1]);
	}
	if (rc == 0)
		close_loader(run, run->loader, stopped, &r->reading[0]);
	r->partial = stopped && r->nr_phases < nr_phases;
	r->partial = r->partial || (r->nr_phases && r->phases[r->nr_phases - 1].partial);
	if (r->partial)
		snprintf(r->why_partial, sizeof(r->why_partial), "interrupted");
	return rc;
}

/* Only these can be read past the page cache: a workload that says so may be run on a bucket. */
static bool reads_files(const struct bench_run_options *o)
{
	const char *place = o->load.store ? o->load.store : o->data->root;

	return strncmp(place, "s3://", 5) != 0 && strncmp(place, "null:", 5) != 0;
}

/* What the loaders are opened with. */
static void choose_reading(struct run *run, const struct shoal_comm_place *place)
{
	const struct bench_reader *reader = &run->w->reader;

	run->read_threads = reader->read_threads;
	if (!run->read_threads)
		run->read_threads = bench_read_threads(bench_nr_cpus(), bench_nr_cpus_node(),
						       (uint64_t)place->node_size, run->nr_here);
	run->load = run->o->load;
	run->load.part = true;
	run->load.direct = run->load.direct || (reader->odirect && reads_files(run->o));
	if (!run->load.in_flight)
		run->load.in_flight =
			(unsigned)shoal_min(run->read_threads * run->nr_here, LOAD_IN_FLIGHT_MAX);
	if (!run->load.prefetch)
		run->load.prefetch = (unsigned)shoal_min(shoal_max(1, reader->prefetch), 65536);
	run->load.stop = run->o->stop;
}

/* What does not depend on how it went. */
static void describe(struct run *run)
{
	const struct bench_data *d = run->o->data;
	struct bench_result *r = run->result;
	struct shoal_catalog_info info;

	shoal_catalog_info(d->cat, &info);
	r->workload = run->w;
	r->nr_ranks = run->nr_ranks;
	r->nr_accelerators = run->nr_all;
	r->data = strdup(run->o->load.store ? run->o->load.store : d->root);
	r->catalog = strdup(d->how);
	r->nr_files = d->train.nr_files;
	r->nr_files_eval = d->eval.nr_files;
	r->bytes = d->train.bytes > 0 ? d->train.bytes
				      : (double)d->train.nr_samples * run->w->dataset.record_bytes;
	memcpy(r->digest, info.digest, sizeof(r->digest));
	snprintf(r->order, sizeof(r->order), "%s", run_order_name(run->w));
	r->in_flight = run->load.in_flight;
	r->prefetch = run->load.prefetch;
	r->direct = run->load.direct;
	r->made_up = run->o->load.store && strncmp(run->o->load.store, "null:", 5) == 0;
}

/* Collective: facts of all ranks. */
static int sum_up(struct run *run, struct shoal_err *err)
{
	struct bench_result *r = run->result;
	uint64_t first =
		run->first_batch ? run->first_batch - run->o->began : run->state.first_batch;
	struct shoal_catalog_info info;
	int rc = shoal_comm_reduce(run->comm, SHOAL_COMM_MAX, &first, 1, err);

	shoal_catalog_info(run->o->data->cat, &info);
	r->seconds_to_first_batch = (double)first * 1e-9;
	if (!r->engine[0]) { /* all was done before */
		memcpy(r->engine, run->state.engine, sizeof(r->engine));
		memcpy(r->engine_detail, run->state.detail, sizeof(r->engine_detail));
	}
	if (!run->pss_bytes)
		run->pss_bytes = bench_pss_bytes();
	if (rc == 0)
		rc = bench_nodes_gather(run->comm, run->pss_bytes, run->pool_bytes, info.file_bytes,
					&r->nodes, &r->nr_nodes, err);
	return rc;
}

static int run_all(struct run *run, struct shoal_err *err)
{
	size_t nr_phases = count_phases(run->w);
	int rc = take_memory(run, nr_phases, err);

	if (rc == 0)
		rc = bench_plan(run->w, run->nr_all, &run->plan, err);
	if (rc < 0) {
		shoal_comm_fail(run->comm, err->msg);
		return rc;
	}
	rc = begin(run, nr_phases, err);
	if (rc == 0)
		rc = shoal_comm_meeting_open(run->comm, &run->meeting, err);
	if (rc < 0)
		return rc;
	run->result->run = run->state.run;
	run->result->started = run->state.started;
	run->result->resumed = run->state.resumed;
	run->result->seed = run->state.seed;
	rc = run_phases(run, nr_phases, err);
	if (rc == 0)
		rc = sum_up(run, err);
	return rc;
}

int bench_run(const struct bench_run_options *o, struct bench_result *ret_result,
	      struct shoal_err *err)
{
	const struct shoal_comm_place *place = shoal_comm_place(o->comm);
	struct run *run = calloc(1, sizeof(*run));
	int rc;

	*ret_result = (struct bench_result){ .workload = o->workload };
	if (!run) {
		shoal_comm_fail(o->comm, "out of memory");
		return shoal_fail(err, -ENOMEM, "out of memory");
	}
	run->o = o;
	run->w = o->workload;
	run->comm = o->comm;
	run->log = BENCH_LOG_CLOSED;
	run->nr_ranks = (uint64_t)place->size;
	run->rank = (uint64_t)place->rank;
	run->nr_here = o->nr_accelerators;
	run->nr_all = run->nr_here * run->nr_ranks;
	run->result = ret_result;
	/* A sleep ends when it should, and not up to 50 us later. */
	(void)!prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	choose_reading(run, place);
	describe(run);
	rc = run_all(run, err);
	ret_result->ended = run_wall_clock();
	bench_result_sum_up(ret_result);
	release(run);
	return rc;
}

void bench_run_close(struct bench_result *r)
{
	for (size_t i = 0; i < SHOAL_ARRAY_LEN(r->reading); i++)
		r->reading[i] = shoal_loader_close(r->reading[i]);
}
