/*
 * A whole dataset: rank r writes files r, r + ranks, ..., and its threads take those in turn. The
 * thread that owns the comm waits meanwhile: it notices failures of other ranks, and sends this
 * rank's progress to rank 0.
 */
#include "datagen/datagen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/queue.h"
#include "datagen/datagen_private.h"

#define THREADS_MAX 1024
#define THREADS_OWN 32 /* without an explicit number */
#define WAIT_MIN_US 200
#define WAIT_MAX_US 10000
#define REPORT_NS   UINT64_C(500000000)

/* ---- Threads ---- */

static void add_counts(struct datagen_counts *to, const struct datagen_counts *more)
{
	uint64_t *a = (uint64_t *)(void *)to;
	const uint64_t *b = (const uint64_t *)(const void *)more;

	for (size_t i = 0; i < sizeof(*to) / sizeof(*a); i++)
		a[i] += b[i];
}

static void end_worker(struct datagen_worker *wk, int rc)
{
	struct datagen *g = wk->g;

	pthread_mutex_lock(&g->lock);
	add_counts(&g->counts, &wk->counts);
	/* A thread that stopped because of another thread's error adds nothing. */
	if (rc < 0 && (g->rc == 0 || g->rc == -ECANCELED)) {
		g->rc = rc;
		g->err = wk->err;
	}
	pthread_mutex_unlock(&g->lock);
	if (rc < 0)
		atomic_store(&g->ended, true);
	atomic_fetch_sub(&g->nr_running, 1);
}

static void *work(void *arg)
{
	struct datagen_worker *wk = arg;
	struct datagen *g = wk->g;
	int rc = 0;

	while (rc == 0) {
		uint64_t k = atomic_fetch_add_explicit(&g->next, 1, memory_order_relaxed);
		uint64_t index = g->rank + k * g->nr_ranks;

		if (index >= g->nr_files)
			break;
		if (datagen_stopped(g))
			rc = err_set(&wk->err, -ECANCELED, "interrupted");
		else
			rc = datagen_file(wk, index);
		if (rc == 0)
			atomic_fetch_add_explicit(&g->nr_done, 1, memory_order_relaxed);
	}
	end_worker(wk, rc);
	return NULL;
}

static struct datagen_worker *free_workers(struct datagen_worker *workers, unsigned nr)
{
	for (unsigned i = 0; workers && i < nr; i++) {
		free(workers[i].made);
		free(workers[i].read);
	}
	free(workers);
	return NULL;
}

/* Two buffers and a maker per thread: 64 MB with 32 threads, whatever the number of files. */
static int new_workers(struct datagen *g, struct datagen_worker **ret_workers,
		       struct shoal_err *err)
{
	struct datagen_worker *workers = calloc(g->nr_threads, sizeof(*workers));
	bool reads = g->o->mode != DATAGEN_WRITE, good = workers != NULL;

	for (unsigned i = 0; good && i < g->nr_threads; i++) {
		workers[i].g = g;
		workers[i].made = malloc(DATAGEN_BUFFER);
		workers[i].read = reads ? malloc(DATAGEN_BUFFER) : NULL;
		good = workers[i].made && (!reads || workers[i].read);
	}
	if (!good) {
		free_workers(workers, g->nr_threads);
		return err_set(err, -ENOMEM, "out of memory");
	}
	*ret_workers = workers;
	return 0;
}

static int start_workers(struct datagen *g, struct datagen_worker *workers, struct shoal_err *err)
{
	int rc = 0;

	for (unsigned i = 0; i < g->nr_threads && rc == 0; i++) {
		atomic_fetch_add(&g->nr_running, 1);
		rc = thread_start(&workers[i].thread, work, &workers[i]);
		workers[i].started = rc == 0;
	}
	if (rc < 0) {
		atomic_fetch_sub(&g->nr_running, 1);
		atomic_store(&g->ended, true);
		return err_set_errno(err, rc, "cannot start a thread");
	}
	return 0;
}

static void join_workers(struct datagen *g, struct datagen_worker *workers)
{
	for (unsigned i = 0; i < g->nr_threads; i++)
		if (workers[i].started)
			pthread_join(workers[i].thread, NULL);
}

/* ---- Progress to rank 0 ---- */

/* A rank's progress since its last report. */
struct report {
	uint64_t nr_done, nr_bytes, finished;
};

struct progress_watch {
	struct datagen *g;
	uint64_t sent_done, sent_bytes; /* reported so far by this rank */
	uint64_t nr_done, nr_bytes;     /* rank 0: of the other ranks */
	uint64_t nr_finished;           /* rank 0: other ranks that have finished */
	uint64_t reported;              /* ns */
	enum datagen_phase phase;
};

enum { MAIL_REPORT = 0x64670001 };

static int report(struct progress_watch *v, bool finished, struct shoal_err *err)
{
	struct datagen *g = v->g;
	uint64_t done = atomic_load(&g->nr_done), bytes = atomic_load(&g->nr_bytes);
	struct report r = { done - v->sent_done, bytes - v->sent_bytes, finished };

	v->sent_done = done;
	v->sent_bytes = bytes;
	v->reported = clock_now();
	return comm_post(g->comm, 0, MAIL_REPORT, &r, sizeof(r), err);
}

static void take_report(struct progress_watch *v, const struct comm_mail *mail)
{
	struct report r;

	if (mail->kind != MAIL_REPORT || mail->len != sizeof(r))
		return;
	memcpy(&r, mail->data, sizeof(r));
	v->nr_done += r.nr_done;
	v->nr_bytes += r.nr_bytes;
	v->nr_finished += r.finished;
}

static void datagen_show(const struct progress_watch *v)
{
	struct datagen *g = v->g;

	if (g->rank > 0 || !g->o->progress)
		return;
	pthread_mutex_lock(&g->lock); /* a thread may be warning on the same screen */
	g->o->progress(g->o->self, &(struct datagen_progress){
					   .phase = v->phase,
					   .nr_done = v->nr_done + atomic_load(&g->nr_done),
					   .nr_files = g->nr_files,
					   .nr_bytes = v->nr_bytes + atomic_load(&g->nr_bytes) });
	pthread_mutex_unlock(&g->lock);
}

/* Sleep until mail arrives, or for a while; send progress. */
static int poll_progress(struct progress_watch *v, uint64_t wait_us, struct shoal_err *err)
{
	struct datagen *g = v->g;
	struct comm_mail mail;
	int rc = comm_poll(g->comm, wait_us, &mail, err);

	if (rc == 1)
		take_report(v, &mail);
	if (rc >= 0 && g->rank > 0 && clock_now() - v->reported >= REPORT_NS)
		rc = report(v, false, err);
	datagen_show(v);
	return rc < 0 ? rc : 0;
}

/* Wait for this rank's threads; on rank 0 for those of all ranks. */
static int wait_for_all(struct progress_watch *v, struct shoal_err *err)
{
	struct datagen *g = v->g;
	uint64_t wait_us = WAIT_MIN_US;
	int rc = 0;

	while (rc == 0 && atomic_load(&g->nr_running) > 0) {
		rc = poll_progress(v, wait_us, err);
		wait_us = u64_min(2 * wait_us, WAIT_MAX_US);
	}
	if (rc < 0 || atomic_load(&g->ended))
		return rc;
	if (g->rank > 0)
		return report(v, true, err);
	while (rc == 0 && v->nr_finished + 1 < g->nr_ranks)
		rc = poll_progress(v, WAIT_MAX_US, err);
	return rc;
}

/* ---- The whole job ---- */

static int run_threads(struct datagen *g, struct shoal_err *err)
{
	struct progress_watch v = { .g = g, .reported = clock_now() };
	struct datagen_worker *workers = NULL;
	int rc = new_workers(g, &workers, err);

	if (rc < 0)
		return rc;
	rc = start_workers(g, workers, err);
	if (rc == 0)
		rc = wait_for_all(&v, err);
	if (rc < 0)
		atomic_store(&g->ended, true);
	join_workers(g, workers);
	free_workers(workers, g->nr_threads);
	/* A thread's error is nearer to the cause than the error of the wait for it. */
	if (g->rc < 0 && rc != -EREMOTEIO) {
		*err = g->err;
		rc = g->rc;
	}
	return rc;
}

/* Check the smallest file of this workload first, so that an impossible format fails at once. */
static int datagen_check_sizes(const struct datagen *g, struct shoal_err *err)
{
	const struct workload_dataset *d = &g->w->dataset;
	double least = (d->record_bytes - d->spread.reach) * (double)d->samples_per_file;
	int rc;

	if (format_has_table(g->format)) /* the workload has checked it */
		return 0;
	rc = format_check(g->format, least < 1 ? 1 : (uint64_t)least, d->samples_per_file, err);

	if (rc == 0)
		rc = format_check(g->format, workload_file_size_max(g->w), d->samples_per_file,
				  err);
	return rc;
}

static int choose_format(struct datagen *g, struct shoal_err *err)
{
	g->format = workload_format(g->w);
	if (!g->format)
		return err_set(err, -EINVAL, "dataset.format %s has no files to write",
			       workload_format_name(g->w->dataset.format));
	if (g->nr_files == 0)
		return err_set(err, -EINVAL,
			       "there are no files to write: dataset.num_files_train is 0");
	return datagen_check_sizes(g, err);
}

/* Writing mostly waits: use more threads than cores, shared among the ranks of a node. */
static unsigned choose_threads(const struct datagen *g)
{
	uint64_t cores = (uint64_t)u64_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	uint64_t nr = g->o->nr_threads;

	if (nr == 0)
		nr = g->w->reader.write_threads;
	if (nr <= 1 && g->o->nr_threads == 0) /* in DLIO 1 means automatic */
		nr = u64_min(u64_max(2 * cores, 8), THREADS_OWN) /
		     (uint64_t)comm_place(g->comm)->node_size;
	return (unsigned)u64_min(u64_max(nr, 1), THREADS_MAX);
}

/* Rank 0 prepares the directory before any other rank looks at it. */
static int open_place(struct datagen *g, struct shoal_err *err)
{
	bool dry_run = g->o->dry_run;
	int rc = g->rank > 0 ? 0 : dry_run ? datagen_place_try(g, err) : datagen_place_open(g, err);

	if (rc < 0) /* the other ranks are waiting */
		comm_fail(g->comm, err);
	if (rc == 0)
		rc = comm_barrier(g->comm, err);
	if (rc == 0 && g->rank > 0 && !dry_run)
		rc = datagen_place_join(g, err);
	return rc;
}

/*
 * A catalog promises that its files exist, so on every node they are synced before it is sealed.
 * All ranks have finished writing, because they have added up their counts.
 */
static int sync_files(struct datagen *g, struct shoal_err *err)
{
	int rc = 0;

	if (comm_place(g->comm)->node_rank == 0)
		rc = store_sync(g->store, err);
	return rc < 0 ? rc : comm_barrier(g->comm, err);
}

static int datagen_run(struct datagen *g, struct datagen_result *result, struct shoal_err *err)
{
	uint64_t start, written;
	int rc = open_place(g, err);

	if (rc < 0 || g->o->dry_run)
		return rc;
	if (g->o->mode == DATAGEN_RESUME)
		rc = datagen_leftovers(g, err);
	/*
	 * A file has a partial file's name until it is complete, so no rank may write before all
	 * have looked.
	 */
	if (rc == 0 && g->o->mode == DATAGEN_RESUME)
		rc = comm_barrier(g->comm, err);
	start = clock_now();
	if (rc == 0)
		rc = run_threads(g, err);
	if (rc == 0)
		rc = comm_reduce(g->comm, COMM_SUM, (uint64_t *)(void *)&g->counts,
				 sizeof(g->counts) / sizeof(uint64_t), err);
	written = clock_now();
	result->seconds = (double)(written - start) * 1e-9;
	/*
	 * Before the sync the files may be in the page cache only, and the speed would be the
	 * cache's.
	 */
	if (rc == 0 && g->o->mode != DATAGEN_VERIFY && !g->o->no_sync) {
		rc = sync_files(g, err);
		result->sync_seconds = (double)(clock_now() - written) * 1e-9;
		result->seconds += result->sync_seconds;
	}
	if (rc == 0 && g->rank == 0 && g->o->mode != DATAGEN_VERIFY)
		rc = datagen_seal(g, result, err);
	if (rc < 0 && rc != -EREMOTEIO)
		comm_fail(g->comm, err);
	if (rc == 0)
		rc = comm_barrier(g->comm, err);
	return rc;
}

int datagen_execute(struct comm *comm, const struct workload *w,
		    const struct datagen_options *options, struct datagen_result *ret_result,
		    struct shoal_err *err)
{
	const struct comm_place *place = comm_place(comm);
	struct datagen_result result = { 0 };
	struct datagen g = {
		.w = w,
		.o = options,
		.comm = comm,
		.rank = (uint64_t)place->rank,
		.nr_ranks = (uint64_t)place->size,
		.place_lock = -1,
		.nr_train = workload_nr_files(w, false),
		.nr_files = workload_nr_files(w, false) + workload_nr_files(w, true),
	};
	struct shoal_err own = { "" };
	int rc;

	err = err ? err : &own;
	rc = choose_format(&g, err);
	if (rc < 0)
		return rc;
	pthread_mutex_init(&g.lock, NULL);
	g.nr_threads = choose_threads(&g);
	rc = datagen_run(&g, &result, err);
	datagen_place_unlock(&g);
	if (!options->store)
		store_close(g.store);
	if (rc < 0 && g.place_made > 0) /* refused: the directories are as they were */
		path_remove_empty(store_local_path(options->data), g.place_made);
	pthread_mutex_destroy(&g.lock);
	/* Even after a failure: the counts so far. */
	result.counts = g.counts;
	result.nr_files = g.nr_files;
	result.nr_threads = g.nr_threads;
	*ret_result = result;
	return rc;
}
