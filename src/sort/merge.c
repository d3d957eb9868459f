#include "sort/merge.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/name.h"
#include "base/publish.h"
#include "base/queue.h"

/* Runs merged at a time: each reader holds a name of 4 KiB besides its buffer. */
#define FAN_IN_MAX 512u

/* ---- The tournament ---- */

#define NOBODY UINT32_MAX

/* How far ahead of a source's name to prefetch: a dozen names, which are consumed while other
 * sources win. */
#define PREFETCH_BYTES 512

/* The most that is read of a run at a time. */
#define READ_MAX (1u << 20)

/* Whether @a comes before @b if their keys are equal. */
static bool beats_by_name(const struct tournament *t, uint32_t a, uint32_t b)
{
	const struct tournament_source *x = &t->source[a], *y = &t->source[b];
	size_t skip, x_len, y_len;
	int c;

	if (x->done || y->done)
		return x->done == y->done ? a < b : y->done;
	skip = t->shared + 8;
	x_len = x->len > skip ? x->len - skip : 0;
	y_len = y->len > skip ? y->len - skip : 0;
	c = x_len && y_len ? name_compare(x->name + skip, x_len, y->name + skip, y_len) : 0;
	if (c)
		return c < 0;
	if (x->len != y->len)
		return x->len < y->len;
	return a < b; /* equal names: the earlier first, so that the later one is kept */
}

static bool beats(const struct tournament *t, uint32_t a, uint32_t b)
{
	if (t->key[a] != t->key[b])
		return t->key[a] < t->key[b];
	return beats_by_name(t, a, b);
}

static void offer_next_of_pack(struct tournament_source *s)
{
	s->done = s->at == s->pack->bytes + s->pack->len;
	if (s->done)
		return;
	/* The hardware prefetcher does not follow many sources. Prefetching past the end is
	 * harmless. */
	__builtin_prefetch(s->at + PREFETCH_BYTES);
	s->name = pack_name(s->at, &s->len);
}

static int offer_next_of_run(struct tournament_source *s)
{
	int rc = sort_run_next(s->run);

	s->name = s->run->entry.name;
	s->len = s->run->entry.len;
	s->done = s->run->done;
	return rc;
}

/* Move a source to its first or next name, without setting its key. */
static int merge_step(struct tournament_source *s)
{
	if (s->run)
		return offer_next_of_run(s);
	assert(s->pack);
	offer_next_of_pack(s);
	return 0;
}

static void set_key(struct tournament *t, uint32_t i)
{
	const struct tournament_source *s = &t->source[i];

	t->key[i] = s->done ? UINT64_MAX : name_key(s->name, s->len, t->shared);
}

/* Let source @i play its way up; the winner ends in tree[0]. The winner is unpredictable, so no
 * branch depends on it. */
static void replay(struct tournament *t, uint32_t i)
{
	uint32_t winner = i;
	uint64_t best = t->key[i];

	for (uint32_t at = (i + t->nr) / 2; at > 0; at /= 2) {
		uint32_t other = t->tree[at], swap;
		uint64_t key = t->key[other];
		bool wins = key < best;

		if (UNLIKELY(key == best))
			wins = beats_by_name(t, other, winner);
		/* The compiler would turn "wins ? other : winner" into jumps. */
		swap = (other ^ winner) & (0u - (uint32_t)wins);
		t->tree[at] = other ^ swap;
		winner ^= swap;
		best ^= (key ^ best) & (0u - (uint64_t)wins);
	}
	t->tree[0] = winner;
}

/*
 * The names of a directory were added together and lie together in one source: a source that has
 * won twice is likely to win again. Only one other can beat it: the best of those it has beaten
 * on its way up.
 */
static void find_rival(struct tournament *t, uint32_t i)
{
	uint32_t at = (i + t->nr) / 2;

	t->rival = t->tree[at];
	for (at /= 2; at > 0; at /= 2)
		if (beats(t, t->tree[at], t->rival))
			t->rival = t->tree[at];
}

/* Source @i, the winner, now offers its next entry. */
static void play_on(struct tournament *t, uint32_t i)
{
	if (t->rival != NOBODY && beats(t, i, t->rival))
		return;
	t->rival = NOBODY;
	replay(t, i);
	if (t->tree[0] == i && t->nr > 1)
		find_rival(t, i);
}

/* Build the tree by playing each source against its neighbour first. */
static void play_first(struct tournament *t)
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

static int tournament_alloc(struct tournament *t, uint32_t nr)
{
	assert(nr > 0);
	*t = (struct tournament){ .nr = nr, .rival = NOBODY };
	t->source = calloc(nr, sizeof(*t->source));
	t->key = calloc(nr, sizeof(*t->key));
	t->tree = calloc(3 * (size_t)nr, sizeof(*t->tree));
	return t->source && t->key && t->tree ? 0 : -ENOMEM;
}

/* Move a source to its first name, of a run to the first in the range. */
static int first_step(const struct tournament *t, struct tournament_source *s)
{
	const struct sort_range *range = t->range;
	int rc = merge_step(s);

	while (rc == 0 && !s->done && range &&
	       name_compare(s->name, s->len, range->from, range->from_len) < 0)
		rc = merge_step(s);
	return rc;
}

/* Whether source @i, the winner, offers a name after the range. */
static bool is_past_range(const struct tournament *t, uint32_t i)
{
	const struct tournament_source *s = &t->source[i];

	return t->range && t->key[i] >= t->end_key && t->range->to_len > 0 &&
	       name_compare(s->name, s->len, t->range->to, t->range->to_len) >= 0;
}

/* Read the first entries, find their common prefix, and let them play. */
static int tournament_begin(struct tournament *t, uint32_t shared)
{
	const struct tournament_source *first = NULL;

	t->shared = shared;
	for (uint32_t i = 0; i < t->nr; i++) {
		struct tournament_source *s = &t->source[i];
		int rc = first_step(t, s);

		if (rc < 0)
			return rc;
		if (s->done)
			continue;
		if (!first)
			first = s;
		t->shared = (uint32_t)u64_min(
			t->shared, name_shared(first->name, first->len, s->name, s->len));
	}
	/* An end without the common prefix is after all names: then the key means nothing, but the
	 * names are compared. */
	if (t->range)
		t->end_key = name_key(t->range->to, t->range->to_len, t->shared);
	for (uint32_t i = 0; i < t->nr; i++)
		set_key(t, i);
	play_first(t);
	return 0;
}

int tournament_of_runs(struct tournament *t, int fd, const struct sort_run *runs, uint32_t nr,
		       const struct sort_range *range, uint8_t *memory, size_t memory_len)
{
	uint32_t shared = UINT32_MAX;
	size_t cap;
	int rc = tournament_alloc(t, nr);

	assert(nr > 0 && runs);
	if (rc < 0)
		return rc;
	t->range = range;
	cap = (size_t)u64_min(READ_MAX, memory_len / nr);
	t->reader = malloc(nr * sizeof(*t->reader));
	if (!t->reader)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		sort_run_open(&t->reader[i], fd, runs, memory + i * cap, cap);
		t->source[i].run = &t->reader[i];
		shared = (uint32_t)u64_min(shared, runs->shared);
		runs = sort_run_after(runs);
	}
	return tournament_begin(t, shared);
}

int tournament_of_packs(struct tournament *t, const struct pack *packs, uint32_t nr)
{
	uint32_t shared = UINT32_MAX;
	int rc = tournament_alloc(t, nr);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < nr; i++) {
		t->source[i].pack = &packs[i];
		t->source[i].at = packs[i].bytes;
		if (packs[i].len > 0)
			shared = (uint32_t)u64_min(shared, packs[i].shared);
	}
	return tournament_begin(t, shared);
}

void tournament_release(struct tournament *t)
{
	free(t->source);
	free(t->key);
	free(t->reader);
	free(t->tree);
	*t = (struct tournament){ 0 };
}

/* The winning entry, which a later one of the same name may still replace. */
struct merge_held {
	bool full;
	uint64_t key;
	struct sort_entry entry;
	uint8_t payload[SORT_PAYLOAD_MAX];
	uint8_t name[SHOAL_NAME_MAX];
};

static void hold(struct merge_held *h, struct tournament_source *s, uint64_t key)
{
	h->key = key;
	h->full = true;
	if (s->pack) { /* it stays where it is */
		s->at = pack_entry(s->at, &h->entry);
		return;
	}
	h->entry = s->run->entry;
	h->entry.name = memcpy(h->name, s->name, s->len);
	sort_payload_copy(h->payload, h->entry.payload, h->entry.payload_len);
	h->entry.payload = h->payload;
}

/* The code that follows relies on the names. Packs were sorted here; runs come from a file. */
static int check_name(const struct merge_held *h, const struct tournament_source *s, uint64_t key,
		      bool *ret_again, struct shoal_err *err)
{
	int c = -1;

	if (h->full && (s->run || h->key == key))
		c = name_compare(h->entry.name, h->entry.len, s->name, s->len);
	*ret_again = c == 0;
	if (!s->run)
		return 0;
	if (c > 0)
		return err_set(err, -EBADMSG,
			       "a temporary file is damaged: names are not ascending");
	if (memchr(s->name, 0, s->len))
		return err_set(err, -EINVAL, "a name contains a NUL byte");
	return 0;
}

/* The order of an entry, which its payload ends with. */
static int compare_orders(const struct tournament *t, const struct sort_entry *a,
			  const struct sort_entry *b)
{
	assert(a->payload_len >= t->order_len && b->payload_len >= t->order_len);
	return memcmp(a->payload + a->payload_len - t->order_len,
		      b->payload + b->payload_len - t->order_len, t->order_len);
}

/* Replace the held entry by the source's, which has the same name, unless that was added before. */
static void hold_again(const struct tournament *t, struct merge_held *h,
		       struct tournament_source *s, uint64_t key)
{
	struct sort_entry next;
	const uint8_t *after = NULL;

	if (s->pack)
		after = pack_entry(s->at, &next);
	else
		next = s->run->entry;
	if (t->order_len == 0 || compare_orders(t, &next, &h->entry) >= 0)
		hold(h, s, key);
	else if (s->pack)
		s->at = after;
}

static int hand_over(const struct tournament *t, struct merge_held *h, sort_entry_fn *take,
		     void *self, struct shoal_err *err)
{
	if (t->strip_order)
		h->entry.payload_len -= t->order_len;
	return take(self, &h->entry, err);
}

int tournament_play(struct tournament *t, const int *stop, uint64_t *repeated, sort_entry_fn *take,
		    void *self, struct shoal_err *err)
{
	struct merge_held held;
	uint64_t count = 0;
	int rc = 0;

	held.full = false;
	while (rc == 0 && !t->source[t->tree[0]].done) {
		uint32_t i = t->tree[0];
		struct tournament_source *s = &t->source[i];
		bool again;

		if (UNLIKELY(is_past_range(t, i)))
			break;
		rc = check_name(&held, s, t->key[i], &again, err);
		if (again)
			++*repeated;
		else if (held.full && rc == 0)
			rc = hand_over(t, &held, take, self, err);
		if (rc != 0)
			break;
		if (UNLIKELY(again))
			hold_again(t, &held, s, t->key[i]);
		else
			hold(&held, s, t->key[i]);
		rc = merge_step(s);
		if (rc < 0)
			err_set_errno(err, rc, "cannot read a temporary file back");
		set_key(t, i);
		play_on(t, i);
		if ((++count & 0xffff) == 0 && stop_requested(stop))
			rc = err_set(err, -ECANCELED, "interrupted");
	}
	if (rc == 0 && held.full)
		rc = hand_over(t, &held, take, self, err);
	return rc;
}

/* ---- One pass ---- */

/* The sources: @nr runs of the job's file, or packs in memory. */
struct sources {
	const struct sort_run *runs;
	const struct pack *packs;
	uint32_t nr;
	bool last; /* pass */
};

static int merge_sources(const struct sort_merge_job *job, const struct sources *src,
			 sort_entry_fn *take, void *self, struct shoal_err *err)
{
	struct tournament t;
	int rc;

	for (uint32_t i = 0; src->packs && i < src->nr; i++)
		*job->repeated += src->packs[i].repeated;
	if (src->packs)
		rc = tournament_of_packs(&t, src->packs, src->nr);
	else
		rc = tournament_of_runs(&t, job->fd, src->runs, src->nr, NULL, job->memory,
					job->memory_len);
	if (rc == -ENOMEM)
		err_set(err, rc, "out of memory");
	else if (rc < 0)
		err_set_errno(err, rc, "cannot read a temporary file back");
	t.order_len = job->order_len;
	t.strip_order = src->last;
	if (rc == 0)
		rc = tournament_play(&t, job->stop, job->repeated, take, self, err);
	tournament_release(&t);
	return rc;
}

static int put_in_run(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct sort_run_writer *w = self;

	sort_run_put(w, e);
	return w->out->rc < 0 ? spill_failed(err, w->out->rc, NULL) : 0;
}

/* Merge @nr runs from the one at @first on into one, which takes their place. */
static int merge_into_run(struct sort_merge_job *job, size_t first, uint32_t nr,
			  struct shoal_err *err)
{
	struct sort_run *run = job->runs->run + first;
	const struct sort_run *end = run;
	struct sort_run_writer w;
	size_t pieces;
	int rc;

	for (uint32_t i = 0; i < nr; i++)
		end = sort_run_after(end);
	pieces = (size_t)(end - run);

	sort_run_start(&w, job->out);
	rc = merge_sources(job, &(struct sources){ .runs = run, .nr = nr }, put_in_run, &w, err);
	if (rc < 0)
		return rc;
	out_flush(job->out);
	if (job->out->rc < 0)
		return spill_failed(err, job->out->rc, NULL);
	for (size_t i = 0; i < pieces; i++) /* free the disk space, if the system supports it */
		if (run[i].off >= job->keep)
			(void)!fallocate(job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					 (off_t)run[i].off, (off_t)run[i].len);
	run[0] = sort_run_end(&w);
	memmove(run + 1, end, (job->runs->nr - first - pieces) * sizeof(*run));
	job->runs->nr -= pieces - 1;
	return 0;
}

/* ---- The last pass, on a thread of its own ---- */

#define BATCH_BYTES (128u << 10)
#define BATCHES     16u

/* How often the consumer may be moved off the merging thread's core. If other work occupies all
 * other cores, moving again does not help. */
#define MOVES_MAX 8u

/* Entries on their way to the consumer, packed. */
struct merge_batch {
	int core;    /* the core that it was filled on */
	bool marked; /* its first entry is one that the stage has marked */
	uint8_t *end;
	uint8_t bytes[BATCH_BYTES];
};

struct pipeline {
	struct sort_merge_job *job;
	const struct sources *src;
	struct queue full, empty;
	struct merge_batch *current;
	int rc;
	struct shoal_err err;
};

static bool give_batch(struct pipeline *p, struct merge_batch *b)
{
	b->core = sched_getcpu();
	return queue_give(&p->full, b);
}

/* A batch with room for one more entry, or an empty one; NULL: the consumer has given up. */
static struct merge_batch *batch_with_room(struct pipeline *p, bool empty)
{
	struct merge_batch *b = p->current;

	if (b && !empty && (size_t)(b->bytes + BATCH_BYTES - b->end) >= PACK_ENTRY_MAX)
		return b;
	if (b && !give_batch(p, b))
		return NULL;
	p->current = b = queue_take(&p->empty);
	if (b) {
		b->end = b->bytes;
		b->marked = false;
	}
	return b;
}

static int put_in_batch(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	struct pipeline *p = self;
	const struct sort_stage *stage = p->job->stage;
	bool marked = stage && stage->see(stage->self, e);
	struct merge_batch *b = batch_with_room(p, marked);

	if (!b)
		return err_set(err, -ECANCELED, "stopped");
	b->marked |= marked;
	b->end = pack_put(b->end, e);
	return 0;
}

static void *merge_thread(void *arg)
{
	struct pipeline *p = arg;

	p->rc = merge_sources(p->job, p->src, put_in_batch, p, &p->err);
	if (p->rc == 0 && p->current && !give_batch(p, p->current))
		p->rc = -ECANCELED;
	queue_close(&p->full);
	return NULL;
}

static int take_batch(const struct sort_merge_job *job, const struct merge_batch *b,
		      struct shoal_err *err)
{
	struct sort_entry e;
	int rc = b->marked ? job->stage->before(job->self, err) : 0;

	for (const uint8_t *at = b->bytes; at < b->end && rc == 0;) {
		at = pack_entry(at, &e);
		rc = job->take(job->self, &e, err);
	}
	return rc;
}

/* All in one. */
static int see_and_take(void *self, const struct sort_entry *e, struct shoal_err *err)
{
	const struct sort_merge_job *job = self;

	int rc = 0;

	if (job->stage && job->stage->see(job->stage->self, e))
		rc = job->stage->before(job->self, err);
	return rc < 0 ? rc : job->take(job->self, e, err);
}

static int merge_take_all(struct pipeline *p, struct shoal_err *err)
{
	unsigned nr_moves = 0;
	struct merge_batch *b;
	int rc = 0;

	while (rc == 0 && (b = queue_take(&p->full)) != NULL) {
		if (b->core == sched_getcpu() && nr_moves++ < MOVES_MAX)
			leave_core(b->core);
		rc = take_batch(p->job, b, err);
		if (rc == 0 && !queue_give(&p->empty, b))
			rc = -EIO;
	}
	return rc;
}

static int merge_to_taker(struct sort_merge_job *job, const struct sources *src,
			  struct shoal_err *err)
{
	struct pipeline p = { .job = job, .src = src };
	/* For packs, batches use the memory of freed chunks, which is mapped already. */
	bool lent = src->packs && job->memory_len >= BATCHES * sizeof(struct merge_batch);
	struct merge_batch *batches = lent ? (struct merge_batch *)(void *)job->memory
					   : malloc(BATCHES * sizeof(*batches));
	pthread_t thread;
	int rc;

	if (!batches)
		return err_set(err, -ENOMEM, "out of memory");
	/* Every batch is in one queue or the other, so one of them has at least half. */
	queue_init_wake_at(&p.full, BATCHES, BATCHES / 2);
	queue_init_wake_at(&p.empty, BATCHES, BATCHES / 2);
	for (size_t i = 0; i < BATCHES; i++)
		(void)!queue_give(&p.empty, &batches[i]);
	if (thread_start(&thread, merge_thread, &p) < 0) {
		/* No thread can be started: merge on this thread. */
		rc = merge_sources(job, src, see_and_take, job, err);
	} else {
		rc = merge_take_all(&p, err);
		queue_close(&p.empty); /* wakes the thread if the consumer gave up first */
		queue_close(&p.full);
		pthread_join(thread, NULL);
		if (rc == 0 && p.rc < 0)
			rc = err_set_as(err, p.rc, &p.err, "%s", p.err.msg);
	}
	queue_release(&p.full);
	queue_release(&p.empty);
	if (!lent)
		free(batches);
	return rc;
}

int sort_merge_reduce(struct sort_merge_job *job, struct shoal_err *err)
{
	size_t fan_in = (size_t)u64_max(2, u64_min(FAN_IN_MAX, job->memory_len / SORT_READ_MIN));
	size_t count, first = 0; /* the merged ones before it have one piece each */

	/* Merge neighbours, from front to back, so that an entry is rewritten once per round. */
	while ((count = sort_runs_count(job->runs)) > fan_in) {
		size_t nr;
		int rc;

		if (count - first < 2)
			first = 0;
		/* As few as leave a full last pass, at least two. */
		nr = (size_t)u64_min(fan_in, count - fan_in + 1);
		nr = (size_t)u64_min(u64_max(2, nr), count - first);
		rc = merge_into_run(job, first, (uint32_t)nr, err);
		if (rc < 0)
			return rc;
		first++;
	}
	return 0;
}

int sort_merge(struct sort_merge_job *job, struct shoal_err *err)
{
	int rc = sort_merge_reduce(job, err);

	return rc < 0 ? rc
		      : merge_to_taker(
				job,
				&(struct sources){ .runs = job->runs->run,
						   .nr = (uint32_t)sort_runs_count(job->runs),
						   .last = true },
				err);
}

int sort_merge_packs(struct sort_merge_job *job, const struct pack *packs, uint32_t nr,
		     struct shoal_err *err)
{
	return merge_to_taker(job, &(struct sources){ .packs = packs, .nr = nr, .last = true },
			      err);
}
