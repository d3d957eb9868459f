#include "run/run.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/text.h"
#include "run/run_private.h"
#include "store/uri.h"

int run_check_data(const char *results, const char *data, bool *ret_kept, struct shoal_err *err)
{
	char name[RUN_DATA_NAME];
	struct run_state state;
	int rc = run_state_peek(results, &state, err);

	if (rc < 0)
		return rc;
	run_data_name(data, name);
	if (strncmp(name, state.data, sizeof(state.data)) != 0)
		return err_set_hint(err, -ESTALE, SHOAL_HINT_SAME_RUN,
				    "the run to resume read '%.300s', not '%.300s'", state.data,
				    name);
	*ret_kept = state.kept != 0;
	return 0;
}

/* ---- The phases of a workload ---- */

static bool evaluates(const struct workload *w, uint64_t epoch)
{
	uint64_t every = u64_max(1, w->evaluation.every_epochs);

	return w->workflow.evaluation && w->dataset.nr_files_eval > 0 &&
	       epoch >= w->evaluation.after_epoch &&
	       (epoch - w->evaluation.after_epoch) % every == 0;
}

static size_t count_phases(const struct workload *w)
{
	size_t nr = 0;

	for (uint64_t e = 1; e <= w->train.epochs; e++)
		nr += 1 + evaluates(w, e);
	return nr;
}

/* Phase number @i, from 0. */
static void name_phase(const struct workload *w, size_t i, struct run_result_phase *p)
{
	uint64_t e = 1;

	for (size_t at = 0;; e++) {
		size_t here = 1 + (size_t)evaluates(w, e);

		if (i < at + here) {
			*p = (struct run_result_phase){ .epoch = (uint32_t)e, .eval = i > at };
			return;
		}
		at += here;
	}
}

/* ---- Starting and resuming ---- */

/*
 * A hash of everything that must be the same for a run to be resumed: the resolved workload, the
 * files, and how they are read. Otherwise the parts of an epoch would be measured differently.
 */
static uint64_t configuration(const struct run *run)
{
	const struct shoal_load_options *l = &run->load;
	const uint64_t how[] = {
		l->in_flight, l->prefetch, l->direct, l->engine, l->object_size, l->slot,
		l->skip_errors, run->read_threads,
		/* Bits, so that runs that started before a bit was added can still be resumed. */
		(uint64_t)run->o->drop_cache | (uint64_t)l->if_match << 1 | l->memory << 2
	};
	const char *store = l->store ? l->store : "";
	struct shoal_catalog_info info;
	uint64_t h = XXH3_64bits(run->w->yaml, strlen(run->w->yaml));

	shoal_catalog_info(run->o->data->cat, &info);
	h = XXH3_64bits_withSeed(info.digest, strlen(info.digest), h);
	h = XXH3_64bits_withSeed(store, strlen(store), h);
	return XXH3_64bits_withSeed(how, sizeof(how), h);
}

/* On rank 0: start a new run in a folder without another run. */
static int start_new_run(struct run *run, struct shoal_err *err)
{
	const struct workload_reader *reader = &run->w->reader;
	struct run_state *s = &run->state;

	*s = (struct run_state){ .configuration = configuration(run),
				 .nr_ranks = run->nr_ranks,
				 .nr_accelerators = run->nr_here,
				 .seed = run->w->train.seed,
				 .started = clock_wall(),
				 .kept = run->o->data->kept };
	run_data_name(run->o->data_name, s->data);
	if (getrandom(&s->run, sizeof(s->run), 0) != (ssize_t)sizeof(s->run))
		s->run = s->started;
	if (reader->file_shuffle == WORKLOAD_SHUFFLE_RANDOM ||
	    reader->sample_shuffle == WORKLOAD_SHUFFLE_RANDOM)
		s->seed = workload_key(s->run, s->started, 0, 0);
	return run_state_create(run->o->results, s, err);
}

/* On rank 0: restore the finished phases. */
static int resume_run(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	struct run_state *s = &run->state;
	int rc = run_state_load(run->o->results, s, run->result->phases, nr_phases, &run->cut, err);

	if (rc < 0)
		return rc;
	if (s->nr_ranks != run->nr_ranks || s->nr_accelerators != run->nr_here)
		return err_set_hint(err, -ESTALE, SHOAL_HINT_SAME_RUN,
				    "the run to resume had %" PRIu64 " rank%s of %" PRIu64
				    " accelerator%s",
				    s->nr_ranks, plural(s->nr_ranks), s->nr_accelerators,
				    plural(s->nr_accelerators));
	if (s->configuration != configuration(run))
		return err_set_hint(err, -ESTALE, SHOAL_HINT_SAME_RUN,
				    "the run to resume had another workload, other values, "
				    "other files or other options for reading");
	if (s->now.nr_phases == nr_phases) /* only its results are to be written */
		return 0;
	s->now.resumed++;
	return run_state_append(run->o->results, s, NULL, err);
}

/* The last block of the log, if it belongs to this phase. Returns 1 and the number of its steps. */
static int log_last_block(const struct run *run, const struct run_result_phase *p,
			  struct step_log_block *ret_block, struct shoal_err *err)
{
	struct step_log_block block = { 0 };
	int rc, found = 0;

	while ((rc = step_log_next(&run->log, &block, err)) == 1) {
		found = block.epoch == p->epoch && block.eval == (p->eval != 0);
		*ret_block = block;
	}
	return rc < 0 ? rc : found;
}

/* End the block after @nr_steps of its steps. */
static int cut_block(struct run *run, const struct step_log_block *block, uint64_t nr_steps,
		     struct shoal_err *err)
{
	struct step_log_block left = { .next_off = block->off };
	int rc = step_log_cut(&run->log, block, nr_steps, err);

	if (rc < 0 || nr_steps == 0)
		return rc;
	rc = step_log_next(&run->log, &left, err); /* its time is that of the remaining steps */
	if (rc == 1)
		rc = step_log_end(&run->log, nr_steps, left.wall, left.ended, err);
	return rc;
}

/*
 * Collective: find the steps of the phase that all ranks have recorded; cut off what one rank has
 * beyond that, and end its block.
 */
static int find_step(struct run *run, const struct run_result_phase *p, uint64_t *ret_step,
		     struct shoal_err *err)
{
	struct step_log_block block = { 0 };
	int found = log_last_block(run, p, &block, err), rc = 0;
	uint64_t done = found == 1 ? block.first_step + block.nr_steps : 0;

	if (found < 0) {
		comm_fail(run->comm, err);
		return found;
	}
	rc = comm_reduce(run->comm, COMM_MIN, &done, 1, err);
	if (rc < 0)
		return rc;
	*ret_step = done;
	if (found == 1 && done < block.first_step)
		rc = err_set(err, -EBADMSG, "the ranks' records of steps are inconsistent");
	else if (found == 1 && (!block.whole || block.first_step + block.nr_steps > done))
		rc = cut_block(run, &block, done - block.first_step, err);
	if (rc < 0)
		comm_fail(run->comm, err);
	return rc;
}

/*
 * A run without a time series is as good a measurement: the error is kept for the result. What a
 * resumed run finds and cannot go on with stays as it is. In either case it can still be watched.
 */
static int open_series(struct run *run, bool resumed)
{
	struct series_head head = { .run = run->state.run,
				    .started = run->state.started,
				    .rank = (uint32_t)run->rank,
				    .nr_ranks = (uint32_t)run->nr_ranks,
				    .nr_accelerators = (uint32_t)run->nr_here };
	struct shoal_err err = { "" };
	char path[RUN_PATH_MAX];
	int rc = run_series_path(run->o->results, (int)run->rank, path, &err);
	bool fresh = !resumed;

	if (rc == 0 && resumed) {
		rc = series_resume(path, head.run, &run->series, &err);
		/* It was killed right after it began. */
		fresh = rc == -ENOENT || rc == -ENODATA;
	}
	if (fresh && (rc == 0 || resumed))
		rc = series_create(path, &head, &run->series, &err);
	if (rc < 0) {
		snprintf(run->result->no_series, sizeof(run->result->no_series), "%.255s", err.msg);
		(void)!series_create(NULL, &head, &run->series, NULL);
	}
	if (run->o->watch)
		run_watch_begin(run->o->watch, run->series);
	return 0;
}

static int open_log(struct run *run, bool resumed, struct shoal_err *err)
{
	char path[RUN_PATH_MAX];
	int rc = run_step_log_path(run->o->results, (int)run->rank, path, err);
	bool missing;

	if (rc == 0 && resumed)
		rc = step_log_open(path, run->state.run, (uint32_t)run->nr_here, &run->log, err);
	/* A run that was killed right after it began has its state, and no log yet. */
	missing = rc == -ENOENT && resumed && run->state.now.nr_phases == 0;
	if (missing || (rc == 0 && !resumed))
		rc = step_log_create(path, run->state.run, (uint32_t)run->nr_here, &run->log, err);
	if (rc < 0)
		comm_fail(run->comm, err);
	return rc < 0 ? rc : open_series(run, resumed);
}

/* What the result has that does not depend on the outcome. */
static void run_note_begun(struct run *run)
{
	run->result->run = run->state.run;
	run->result->started = run->state.started;
	run->result->resumed = run->state.now.resumed;
	run->result->seed = run->state.seed;
	run->result->nr_phases = (size_t)run->state.now.nr_phases;
}

/* Rank 0. */
static int run_tell_begun(struct run *run, struct shoal_err *err)
{
	run_note_begun(run);
	return run->o->begun ? run->o->begun(run->o->self, run->result, err) : 0;
}

/* Collective. */
static int run_begin(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	int rc = 0;

	if (run->rank == 0) {
		rc = run_folder_begin(run->o->results, err);
		if (rc == 0)
			rc = run->o->resume ? resume_run(run, nr_phases, err)
					    : start_new_run(run, err);
		if (rc < 0) {
			comm_fail(run->comm, err);
			return rc;
		}
		run->result->begun = true;
		/* Before the other files, on any rank: it marks the folder. */
		rc = run_tell_begun(run, err);
		if (rc < 0) {
			comm_fail(run->comm, err);
			return rc;
		}
	}
	rc = comm_broadcast(run->comm, 0, &run->state, sizeof(run->state), err);
	/* All ranks need the finished phases: each judges the whole run. */
	if (rc == 0)
		rc = comm_broadcast(run->comm, 0, &run->cut, sizeof(run->cut), err);
	if (rc == 0 && run->state.now.nr_phases > 0)
		rc = comm_broadcast(run->comm, 0, run->result->phases,
				    (size_t)run->state.now.nr_phases * sizeof(*run->result->phases),
				    err);
	return rc < 0 ? rc : open_log(run, run->o->resume, err);
}

/* ---- All phases ---- */

static int allocate_run(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	size_t nr = (size_t)run->nr_here;
	int rc = 0;

	/* About 250 bytes per accelerator of this process, and its workers. */
	run->steps = calloc(nr, sizeof(*run->steps));
	run->ready = calloc(nr, sizeof(*run->ready));
	run->blocks = calloc(nr, sizeof(*run->blocks));
	run->means = calloc(nr, sizeof(*run->means));
	run->result->phases = calloc(nr_phases ? nr_phases : 1, sizeof(*run->result->phases));
	if (!run->steps || !run->ready || !run->blocks || !run->means || !run->result->phases)
		return err_set(err, -ENOMEM, "out of memory");
	if (run->w->reader.preprocess_time.kind == WORKLOAD_TIME_NONE)
		return 0;
	run->workers = calloc(nr, sizeof(*run->workers));
	if (!run->workers)
		return err_set(err, -ENOMEM, "out of memory");
	for (size_t a = 0; rc == 0 && a < nr; a++)
		rc = run_workers_init(&run->workers[a], (size_t)run->read_threads, err);
	return rc;
}

static void close_series(struct run *run)
{
	struct shoal_err err = { "" };

	if (series_close(run->series, &err) < 0)
		snprintf(run->result->no_series, sizeof(run->result->no_series), "%.255s", err.msg);
	run->series = NULL;
}

static void run_release(struct run *run)
{
	for (size_t a = 0; run->workers && a < run->nr_here; a++)
		run_workers_release(&run->workers[a]);
	free(run->workers);
	free(run->steps);
	free(run->ready);
	free(run->blocks);
	free(run->means);
	close_series(run);
	step_log_close(&run->log);
	comm_fast_close(run->fast);
	free(run);
}

/* On rank 0: store a finished phase, so that it is not run again. */
static int keep_phase(struct run *run, const struct phase *phase, struct shoal_err *err)
{
	struct run_result *r = run->result;
	int rc = 0;

	phase->p->partial = phase->stopped && phase->p->steps < phase->steps;
	if (phase->p->partial && phase->p->steps == 0)
		return 0; /* none of it was done */
	r->nr_phases++;
	if (!phase->p->partial)
		run->state.now.nr_phases = r->nr_phases;
	/* For a run that is resumed only to write its results. */
	memcpy(run->state.now.engine, r->engine, sizeof(run->state.now.engine));
	memcpy(run->state.now.detail, r->engine_detail, sizeof(run->state.now.detail));
	if (run->first_batch && !run->state.now.first_batch)
		run->state.now.first_batch = run->first_batch - run->o->began;
	if (run->rank != 0)
		return 0;
	rc = run_state_append(run->o->results, &run->state, phase->p, err);
	if (rc < 0)
		comm_fail(run->comm, err);
	else if (run->o->ended)
		run->o->ended(run->o->self, r);
	return rc;
}

static int start_phase(struct run *run, struct phase *phase, uint64_t first_step,
		       struct shoal_err *err)
{
	const struct workload *w = run->w;
	bool eval = phase->p->eval;
	int rc;

	phase->part = eval ? &run->o->data->eval : &run->o->data->train;
	phase->batch = eval ? w->reader.batch_eval : w->reader.batch;
	phase->compute = eval ? &w->evaluation.eval_time : &w->train.computation_time;
	phase->steps = eval ? run->plan.steps_eval : run->plan.steps;
	phase->first_step = first_step;
	phase->p->steps_before = first_step;
	phase->p->steps_due = phase->steps;
	phase->p->left_over = phase->part->nr_rows - phase->steps * phase->batch * run->nr_all;
	phase->loader = eval ? NULL : run->loader;
	rc = run_groups_start(run, phase, err);
	if (rc == 0 && !phase->loader)
		rc = run_open_loader(run, phase, &phase->loader, err);
	if (rc == 0 && !eval)
		run->loader = phase->loader;
	if (rc < 0)
		comm_fail(run->comm, err);
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
 * Closing waits for reads in flight, forever if the storage hangs. A stopped run leaves it to the
 * caller, which has the results to write first. The same applies after a failure: nothing may block
 * then.
 */
static void close_loader(struct run *run, struct shoal_loader *loader, bool was_stopped,
			 struct shoal_loader **ret_reading)
{
	if (was_stopped || stop_requested(run->o->stop))
		*ret_reading = loader;
	else
		shoal_loader_close(loader);
}

static int run_phases(struct run *run, size_t nr_phases, struct shoal_err *err)
{
	struct run_result *r = run->result;
	uint64_t first_step = 0;
	bool stopped = false;
	int rc = 0;

	r->nr_phases = (size_t)run->state.now.nr_phases;
	for (size_t i = r->nr_phases; rc == 0 && i < nr_phases && !stopped; i++) {
		struct phase phase = { .p = &r->phases[i] };

		name_phase(run->w, i, phase.p);
		first_step = 0;
		if (run->state.now.resumed)
			rc = find_step(run, phase.p, &first_step, err);
		if (rc == 0)
			rc = start_phase(run, &phase, first_step, err);
		if (rc == 0)
			rc = run_phase(run, &phase, err);
		if (rc == 0 && !r->engine[0])
			note_engine(run, &phase);
		if (rc == 0)
			rc = keep_phase(run, &phase, err);
		stopped = phase.stopped;
		free(phase.held);
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

/* Only files can be read past the page cache: a workload with direct I/O may be run on a bucket. */
static bool reads_files(const struct run_options *o)
{
	const char *place = o->load.store ? o->load.store : o->data->root;

	return store_uri_traits(place).files;
}

/* Resolve the options of the loaders. */
static void choose_reading(struct run *run, const struct comm_place *place)
{
	const struct workload_reader *reader = &run->w->reader;

	run->read_threads = reader->read_threads;
	if (!run->read_threads)
		run->read_threads = run_read_threads(run_nr_cpus(), run_nr_cpus_node(),
						     (uint64_t)place->node_size, run->nr_here);
	run->load = run->o->load;
	run->load.part = true;
	run->load.direct = run->load.direct || (reader->odirect && reads_files(run->o));
	if (!run->load.in_flight)
		run->load.in_flight =
			(unsigned)u64_min(run->read_threads * run->nr_here, LOAD_IN_FLIGHT_MAX);
	if (!run->load.prefetch)
		run->load.prefetch =
			(unsigned)u64_min(workload_batches_ahead(run->w, run->read_threads), 65536);
	run->load.stop = run->o->stop;
}

/* Fill in the results that do not depend on the outcome. */
static void run_describe(struct run *run)
{
	const struct run_data *d = run->o->data;
	struct run_result *r = run->result;
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
				      : (double)d->train.nr_rows * run->w->dataset.record_bytes;
	memcpy(r->digest, info.digest, sizeof(r->digest));
	snprintf(r->order, sizeof(r->order), "%s", run_order_name(run->w, &d->train));
	r->in_flight = run->load.in_flight;
	r->read_threads = run->read_threads;
	r->prefetch = run->load.prefetch;
	r->threads = run->load.threads;
	r->direct = run->load.direct;
	r->drop_cache = run->o->drop_cache;
	r->device_known = reads_files(run->o) &&
			  load_device_known(run->o->load.store ? run->o->load.store : d->root);
	r->synthetic = run->o->load.store && store_uri_traits(run->o->load.store).synthetic;
}

/* Collective: combine facts of all ranks. */
static int run_sum_up(struct run *run, struct shoal_err *err)
{
	struct run_result *r = run->result;
	uint64_t first =
		run->first_batch ? run->first_batch - run->o->began : run->state.now.first_batch;
	struct shoal_catalog_info info;
	int rc = comm_reduce(run->comm, COMM_MAX, &first, 1, err);

	shoal_catalog_info(run->o->data->cat, &info);
	r->seconds_to_first_batch = (double)first * 1e-9;
	if (!r->engine[0]) { /* everything was done before */
		memcpy(r->engine, run->state.now.engine, sizeof(r->engine));
		memcpy(r->engine_detail, run->state.now.detail, sizeof(r->engine_detail));
	}
	if (!run->pss_bytes)
		run->pss_bytes = run_pss_bytes();
	if (rc == 0)
		rc = run_nodes_gather(run->comm, run->pss_bytes, run->pool_bytes, info.file_bytes,
				      &r->nodes, &r->nr_nodes, err);
	return rc;
}

static int run_all(struct run *run, struct shoal_err *err)
{
	size_t nr_phases = count_phases(run->w);
	int rc = allocate_run(run, nr_phases, err);

	if (rc == 0)
		rc = datasize_plan(run->w, run->nr_all, &run->plan, err);
	if (rc < 0) {
		comm_fail(run->comm, err);
		return rc;
	}
	rc = run_count_cores(run->comm, &run->result->cores, err);
	if (rc == 0)
		rc = run_begin(run, nr_phases, err);
	if (rc == 0)
		rc = comm_fast_open(run->comm, &run->fast, err);
	if (rc < 0)
		return rc;
	run_note_begun(run);
	rc = run_phases(run, nr_phases, err);
	if (rc == 0)
		rc = run_sum_up(run, err);
	return rc;
}

int run_execute(const struct run_options *o, struct run_result *ret_result, struct shoal_err *err)
{
	const struct comm_place *place = comm_place(o->comm);
	struct run *run = calloc(1, sizeof(*run));
	int rc;

	*ret_result = (struct run_result){ .workload = o->workload };
	if (!run) {
		rc = err_set(err, -ENOMEM, "out of memory");
		comm_fail(o->comm, err);
		return rc;
	}
	run->o = o;
	run->w = o->workload;
	run->comm = o->comm;
	run->log = STEP_LOG_CLOSED;
	run->nr_ranks = (uint64_t)place->size;
	run->rank = (uint64_t)place->rank;
	run->nr_here = o->nr_accelerators;
	run->nr_all = run->nr_here * run->nr_ranks;
	run->result = ret_result;
	/* Sleeps end on time, not up to 50 us later. */
	(void)!prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	choose_reading(run, place);
	run_describe(run);
	rc = run_all(run, err);
	ret_result->ended = clock_wall();
	run_result_sum_up(ret_result);
	run_release(run);
	return rc;
}
