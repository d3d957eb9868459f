#include "index/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/queue.h"
#include "index/tournament.h"

/* Least that a run is read by at once: this still makes a disk seek worth it. */
#define READ_MIN (64u << 10)

/* Runs merged at once: their readers hold a name of 4 KiB each besides their buffer. */
#define FAN_IN_MAX 512u

/* ---- One pass ---- */

/* What is merged: @nr runs of the job's file, or packs in memory. */
struct sources {
	const struct index_run *runs;
	const struct index_pack *packs;
	uint32_t nr;
};

static int merge_sources(const struct index_merge_job *job, const struct sources *src,
			 shoal_entry_fn *take, void *self, struct shoal_err *err)
{
	struct index_tournament t;
	int rc;

	if (src->packs)
		rc = index_tournament_of_packs(&t, src->packs, src->nr);
	else
		rc = index_tournament_of_runs(&t, job->fd, src->runs, src->nr, job->memory,
					      job->memory_len);
	if (rc == -ENOMEM)
		shoal_fail(err, rc, "out of memory");
	else if (rc < 0)
		shoal_fail_errno(err, rc, "cannot read a temporary file back");
	else
		rc = index_tournament_play(&t, job->stop, job->repeated, take, self, err);
	index_tournament_release(&t);
	return rc;
}

static int put_in_run(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct index_run_writer *w = self;

	index_run_put(w, e);
	return w->out->rc < 0 ? shoal_fail_errno(err, w->out->rc, "cannot write a temporary file")
			      : 0;
}

/* Make one run of @nr runs from @first on; it takes their place. */
static int merge_into_run(struct index_merge_job *job, size_t first, uint32_t nr,
			  struct shoal_err *err)
{
	struct index_run *run = job->runs->run + first;
	struct index_run_writer w;
	int rc;

	index_run_start(&w, job->out);
	rc = merge_sources(job, &(struct sources){ .runs = run, .nr = nr }, put_in_run, &w, err);
	if (rc < 0)
		return rc;
	shoal_out_flush(job->out);
	if (job->out->rc < 0)
		return shoal_fail_errno(err, job->out->rc, "cannot write a temporary file");
	for (uint32_t i = 0; i < nr; i++) /* give the disk space back, where the system can */
		if (run[i].off >= job->keep)
			(void)!fallocate(job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 (off_t)run[i].off, (off_t)run[i].len);
	run[0] = index_run_end(&w);
	memmove(run + 1, run + nr, (job->runs->nr - first - nr) * sizeof(*run));
	job->runs->nr -= nr - 1;
	return 0;
}

/* ---- The last pass, on a thread of its own ---- */

#define BATCH_ENTRIES 4096u
#define BATCH_BYTES   (64u << 10)
#define BATCHES       16u

/* How often who takes leaves the core of who merges. Where other work is in the way on all others,
 * it does not help to go on with that. */
#define MOVES_MAX 8u

/* Entries on their way to the taker, and a copy of what they lend where that does not stay. */
struct batch {
	int core; /* that it was filled on */
	size_t nr, fill;
	struct shoal_entry entry[BATCH_ENTRIES];
	uint8_t bytes[BATCH_BYTES];
};

struct pipeline {
	struct index_merge_job *job;
	const struct sources *src;
	struct shoal_queue full, empty;
	struct batch *current;
	struct cat_digester digester; /* of the thread, as the rest */
	int rc;
	struct shoal_err err;
};

static bool give_batch(struct pipeline *p, struct batch *b)
{
	b->core = sched_getcpu();
	return shoal_queue_give(&p->full, b);
}

/* A batch with room for one more entry; NULL: who takes them has given up. */
static struct batch *batch_with_room(struct pipeline *p)
{
	struct batch *b = p->current;

	if (b && b->nr < BATCH_ENTRIES &&
	    BATCH_BYTES - b->fill >= SHOAL_NAME_MAX + sizeof(struct shoal_etag))
		return b;
	if (b && !give_batch(p, b))
		return NULL;
	p->current = b = shoal_queue_take(&p->empty);
	if (b)
		b->nr = b->fill = 0;
	return b;
}

static int put_in_batch(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct pipeline *p = self;
	struct batch *b = batch_with_room(p);
	struct shoal_entry *mine;

	if (!b)
		return shoal_fail(err, -ECANCELED, "stopped");
	if (p->job->digester)
		cat_digester_add(&p->digester, e->name, e->len, e->size, e->samples);
	mine = &b->entry[b->nr++];
	*mine = *e;
	if (p->src->packs) /* where it lies it stays */
		return 0;
	mine->name = memcpy(b->bytes + b->fill, e->name, e->len);
	b->fill += e->len;
	if (e->etag) {
		mine->etag = memcpy(b->bytes + b->fill, e->etag, sizeof(*e->etag));
		b->fill += sizeof(*e->etag);
	}
	return 0;
}

static void *merge_thread(void *arg)
{
	struct pipeline *p = arg;

	if (p->job->digester)
		p->digester = *p->job->digester;
	p->rc = merge_sources(p->job, p->src, put_in_batch, p, &p->err);
	if (p->rc == 0 && p->current && !give_batch(p, p->current))
		p->rc = -ECANCELED;
	shoal_queue_close(&p->full);
	return NULL;
}

static int take_batch(const struct index_merge_job *job, const struct batch *b,
		      struct shoal_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < b->nr && rc == 0; i++)
		rc = job->take(job->self, &b->entry[i], err);
	return rc;
}

/* All in one. */
static int digest_and_take(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	const struct index_merge_job *job = self;

	if (job->digester)
		cat_digester_add(job->digester, e->name, e->len, e->size, e->samples);
	return job->take(job->self, e, err);
}

static int take_all(struct pipeline *p, struct shoal_err *err)
{
	unsigned nr_moves = 0;
	struct batch *b;
	int rc = 0;

	while (rc == 0 && (b = shoal_queue_take(&p->full)) != NULL) {
		if (b->core == sched_getcpu() && nr_moves++ < MOVES_MAX)
			shoal_leave_core(b->core);
		rc = take_batch(p->job, b, err);
		if (rc == 0 && !shoal_queue_give(&p->empty, b))
			rc = -EIO;
	}
	return rc;
}

static int merge_to_taker(struct index_merge_job *job, const struct sources *src,
			  struct shoal_err *err)
{
	struct pipeline p = { .job = job, .src = src };
	/* Of packs the memory is what chunks had, and so is there already. */
	bool lent = src->packs && job->memory_len >= BATCHES * sizeof(struct batch);
	struct batch *batches =
		lent ? (struct batch *)(void *)job->memory : malloc(BATCHES * sizeof(*batches));
	pthread_t thread;
	int rc;

	if (!batches)
		return shoal_fail(err, -ENOMEM, "out of memory");
	/* All are in one queue or the other, so that one of them has half of them. */
	shoal_queue_init_patient(&p.full, BATCHES, BATCHES / 2);
	shoal_queue_init_patient(&p.empty, BATCHES, BATCHES / 2);
	for (size_t i = 0; i < BATCHES; i++)
		(void)!shoal_queue_give(&p.empty, &batches[i]);
	if (shoal_thread_start(&thread, merge_thread, &p) < 0) {
		/* The system has none for us: one after the other, then. */
		rc = merge_sources(job, src, digest_and_take, job, err);
	} else {
		rc = take_all(&p, err);
		shoal_queue_close(&p.empty); /* wakes the thread if we gave up first */
		shoal_queue_close(&p.full);
		pthread_join(thread, NULL);
		if (job->digester)
			*job->digester = p.digester;
		if (rc == 0 && p.rc < 0)
			rc = shoal_fail(err, p.rc, "%s", p.err.msg);
	}
	shoal_queue_release(&p.full);
	shoal_queue_release(&p.empty);
	if (!lent)
		free(batches);
	return rc;
}

int index_merge(struct index_merge_job *job, struct shoal_err *err)
{
	size_t fan_in = (size_t)shoal_max(2, shoal_min(FAN_IN_MAX, job->memory_len / READ_MIN));
	size_t first = 0;

	/* Neighbours together, from front to back, so that an entry is rewritten once a round. */
	while (job->runs->nr > fan_in) {
		size_t nr;
		int rc;

		if (job->runs->nr - first < 2)
			first = 0;
		/* As few as leave a full last pass, at least two. */
		nr = (size_t)shoal_min(fan_in, job->runs->nr - fan_in + 1);
		nr = (size_t)shoal_min(shoal_max(2, nr), job->runs->nr - first);
		rc = merge_into_run(job, first, (uint32_t)nr, err);
		if (rc < 0)
			return rc;
		first++;
	}
	return merge_to_taker(
		job, &(struct sources){ .runs = job->runs->run, .nr = (uint32_t)job->runs->nr },
		err);
}

int index_merge_packs(struct index_merge_job *job, const struct index_pack *packs, uint32_t nr,
		      struct shoal_err *err)
{
	return merge_to_taker(job, &(struct sources){ .packs = packs, .nr = nr }, err);
}

int index_merge_into_run(const struct index_pack *packs, uint32_t nr, struct shoal_out *out,
			 uint64_t *repeated, struct index_run *ret_run, struct shoal_err *err)
{
	struct index_merge_job job = { .repeated = repeated };
	struct index_run_writer w;
	int rc;

	index_run_start(&w, out);
	rc = merge_sources(&job, &(struct sources){ .packs = packs, .nr = nr }, put_in_run, &w,
			   err);
	shoal_out_flush(out);
	if (rc == 0 && out->rc < 0)
		rc = shoal_fail_errno(err, out->rc, "cannot write a temporary file");
	if (rc == 0)
		*ret_run = index_run_end(&w);
	return rc;
}
