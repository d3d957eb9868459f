#include "index/merge.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/queue.h"
#include "index/radix.h"

/* Least and most a run is read by at once. The least still makes a disk seek worth it. */
#define READ_MIN (64u << 10)
#define READ_MAX (1u << 20)

/* Runs merged at once: their readers hold a name of 4 KiB each besides their buffer. */
#define FAN_IN_MAX 512u

/* ---- A tournament of runs ---- */

struct tournament {
	struct index_run_reader *reader;
	uint32_t *tree; /* tree[0] is the winner, the others are losers on the way up */
	uint32_t nr;
	uint32_t shared; /* bytes with which all names start */
};

static bool beats(const struct tournament *t, uint32_t a, uint32_t b)
{
	const struct index_run_reader *x = &t->reader[a], *y = &t->reader[b];
	size_t skip, x_len, y_len, min;
	int c;

	if (x->key != y->key)
		return x->key < y->key;
	if (x->done || y->done)
		return x->done == y->done ? a < b : y->done;
	skip = t->shared + 8;
	x_len = x->entry.len > skip ? x->entry.len - skip : 0;
	y_len = y->entry.len > skip ? y->entry.len - skip : 0;
	min = x_len < y_len ? x_len : y_len;
	c = min ? memcmp(x->name + skip, y->name + skip, min) : 0;
	if (c)
		return c < 0;
	if (x->entry.len != y->entry.len)
		return x->entry.len < y->entry.len;
	return a < b; /* equal names: the earlier first, so that the later one stays */
}

static int advance(struct tournament *t, uint32_t i)
{
	struct index_run_reader *r = &t->reader[i];
	int rc = index_run_next(r);

	r->key = r->done ? UINT64_MAX : shoal_name_key(r->name, (uint32_t)r->entry.len, t->shared);
	return rc;
}

/* Let run @i play its way up; the winner ends in tree[0]. */
static void replay(struct tournament *t, uint32_t i)
{
	uint32_t winner = i;

	for (uint32_t at = (i + t->nr) / 2; at > 0; at /= 2) {
		uint32_t other = t->tree[at];

		if (beats(t, other, winner)) {
			t->tree[at] = winner;
			winner = other;
		}
	}
	t->tree[0] = winner;
}

/* Build by playing each run against an empty place first. */
static void play_all(struct tournament *t)
{
	uint32_t *winner = t->tree + t->nr; /* the second half of tree is scratch for this */

	for (uint32_t i = 0; i < t->nr; i++)
		winner[t->nr + i] = i;
	for (uint32_t at = t->nr - 1; at > 0; at--) {
		uint32_t a = winner[2 * at], b = winner[2 * at + 1];
		bool first = beats(t, a, b);

		winner[at] = first ? a : b;
		t->tree[at] = first ? b : a;
	}
	t->tree[0] = t->nr > 1 ? winner[1] : 0;
}

static void tournament_release(struct tournament *t)
{
	free(t->reader);
	free(t->tree);
}

/* Open @nr runs of the job from @first on and read their first entries. */
static int tournament_open(struct tournament *t, const struct index_merge_job *job, size_t first,
			   uint32_t nr)
{
	size_t cap;
	int rc = 0;

	assert(nr > 0);
	cap = (size_t)shoal_min(READ_MAX, job->memory_len / nr);

	*t = (struct tournament){ .nr = nr };
	t->reader = malloc(nr * sizeof(*t->reader));
	t->tree = malloc(3 * (size_t)nr * sizeof(*t->tree));
	if (!t->reader || !t->tree)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr && rc == 0; i++) {
		struct index_run_reader *r = &t->reader[i];
		const struct index_run *run = &job->runs->run[first + i];

		index_run_open(r, job->fd, run, job->memory + i * cap, cap);
		rc = index_run_next(r);
		if (i == 0)
			t->shared = run->shared;
		t->shared = (uint32_t)shoal_min(shoal_min(t->shared, run->shared),
						shoal_name_shared(t->reader[0].name,
								  t->reader[0].entry.len, r->name,
								  r->entry.len));
	}
	for (uint32_t i = 0; i < nr && rc == 0; i++) {
		struct index_run_reader *r = &t->reader[i];

		r->key = r->done ? UINT64_MAX
				 : shoal_name_key(r->name, (uint32_t)r->entry.len, t->shared);
	}
	if (rc == 0)
		play_all(t);
	return rc;
}

/* ---- One pass ---- */

/* The entry that has won but may still be replaced by a later one of the same name. */
struct held {
	bool full;
	struct shoal_entry entry;
	uint8_t name[SHOAL_NAME_MAX];
};

static void hold(struct held *h, const struct shoal_entry *e)
{
	memcpy(h->name, e->name, e->len);
	h->entry = *e;
	h->entry.name = h->name;
	h->full = true;
}

static int merge_runs(const struct index_merge_job *job, size_t first, uint32_t nr,
		      shoal_entry_fn *take, void *self, struct shoal_err *err)
{
	struct held held = { .full = false };
	struct tournament t;
	uint64_t count = 0;
	int rc;

	rc = tournament_open(&t, job, first, nr);
	if (rc < 0)
		shoal_fail_errno(err, rc, "cannot read a temporary file back");
	while (rc == 0 && !t.reader[t.tree[0]].done) {
		uint32_t i = t.tree[0];
		const struct shoal_entry *e = &t.reader[i].entry;

		if (held.full && held.entry.len == e->len &&
		    memcmp(held.name, e->name, e->len) == 0)
			++*job->repeated;
		else if (held.full)
			rc = take(self, &held.entry, err);
		if (rc < 0)
			break;
		hold(&held, e);
		rc = advance(&t, i);
		if (rc < 0)
			shoal_fail_errno(err, rc, "cannot read a temporary file back");
		replay(&t, i);
		if ((++count & 0xffff) == 0 && index_stopped(job->stop))
			rc = shoal_fail(err, -ECANCELED, "interrupted");
	}
	if (rc == 0 && held.full)
		rc = take(self, &held.entry, err);
	tournament_release(&t);
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
	rc = merge_runs(job, first, nr, put_in_run, &w, err);
	if (rc < 0)
		return rc;
	shoal_out_flush(job->out);
	if (job->out->rc < 0)
		return shoal_fail_errno(err, job->out->rc, "cannot write a temporary file");
	for (uint32_t i = 0; i < nr; i++) /* give the disk space back, where the system can */
		(void)!fallocate(job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)run[i].off, (off_t)run[i].len);
	run[0] = index_run_end(&w);
	memmove(run + 1, run + nr, (job->runs->nr - first - nr) * sizeof(*run));
	job->runs->nr -= nr - 1;
	return 0;
}

/* ---- The last pass, on a thread of its own ---- */

#define BATCH_BYTES (128u << 10)
#define BATCHES     4u

/* Entries on their way to the taker: their struct, then the name. */
struct batch {
	size_t fill;
	uint8_t bytes[BATCH_BYTES];
};

struct pipeline {
	struct index_merge_job *job;
	uint32_t nr;
	struct shoal_queue full, empty;
	struct batch *current;
	int rc; /* of the thread */
	struct shoal_err err;
};

/* Copied by value into a batch: alignment 1. */
struct packed_entry {
	struct shoal_le64 len, size, samples;
};

static int put_in_batch(void *self, const struct shoal_entry *e, struct shoal_err *err)
{
	struct pipeline *p = self;
	struct packed_entry packed = { shoal_le64_of(e->len), shoal_le64_of(e->size),
				       shoal_le64_of(e->samples) };
	uint8_t *at;

	if (p->current && p->current->fill + sizeof(packed) + e->len > BATCH_BYTES) {
		if (!shoal_queue_give(&p->full, p->current))
			return shoal_fail(err, -ECANCELED, "stopped");
		p->current = NULL;
	}
	if (!p->current) {
		p->current = shoal_queue_take(&p->empty);
		if (!p->current)
			return shoal_fail(err, -ECANCELED, "stopped");
		p->current->fill = 0;
	}
	at = p->current->bytes + p->current->fill;
	memcpy(at, &packed, sizeof(packed));
	memcpy(at + sizeof(packed), e->name, e->len);
	p->current->fill += sizeof(packed) + e->len;
	return 0;
}

static void *merge_thread(void *arg)
{
	struct pipeline *p = arg;

	p->rc = merge_runs(p->job, 0, p->nr, put_in_batch, p, &p->err);
	if (p->rc == 0 && p->current && !shoal_queue_give(&p->full, p->current))
		p->rc = -ECANCELED;
	shoal_queue_close(&p->full);
	return NULL;
}

static int take_batch(const struct index_merge_job *job, const struct batch *b,
		      struct shoal_err *err)
{
	int rc = 0;

	for (size_t at = 0; at < b->fill && rc == 0;) {
		struct packed_entry packed;
		struct shoal_entry e;

		memcpy(&packed, b->bytes + at, sizeof(packed));
		at += sizeof(packed);
		e = (struct shoal_entry){ .name = b->bytes + at,
					  .len = (size_t)shoal_le64_get(packed.len),
					  .size = shoal_le64_get(packed.size),
					  .samples = shoal_le64_get(packed.samples) };
		at += e.len;
		rc = job->take(job->self, &e, err);
	}
	return rc;
}

static int take_all(struct pipeline *p, struct shoal_err *err)
{
	struct batch *b;
	int rc = 0;

	while (rc == 0 && (b = shoal_queue_take(&p->full)) != NULL) {
		rc = take_batch(p->job, b, err);
		if (rc == 0 && !shoal_queue_give(&p->empty, b))
			rc = -EIO;
	}
	return rc;
}

static int merge_to_taker(struct index_merge_job *job, struct shoal_err *err)
{
	struct pipeline p = { .job = job, .nr = (uint32_t)job->runs->nr };
	struct batch *batches = malloc(BATCHES * sizeof(*batches));
	pthread_t thread;
	int rc;

	if (!batches)
		return shoal_fail(err, -ENOMEM, "out of memory");
	shoal_queue_init(&p.full, BATCHES);
	shoal_queue_init(&p.empty, BATCHES);
	for (size_t i = 0; i < BATCHES; i++)
		(void)!shoal_queue_give(&p.empty, &batches[i]);
	rc = shoal_thread_start(&thread, merge_thread, &p);
	if (rc < 0) {
		shoal_fail_errno(err, rc, "cannot start merging");
	} else {
		rc = take_all(&p, err);
		shoal_queue_close(&p.empty); /* wakes the thread if we gave up first */
		shoal_queue_close(&p.full);
		pthread_join(thread, NULL);
		if (rc == 0 && p.rc < 0)
			rc = shoal_fail(err, p.rc, "%s", p.err.msg);
	}
	shoal_queue_release(&p.full);
	shoal_queue_release(&p.empty);
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
	return merge_to_taker(job, err);
}
