/*
 * The thread that reads ahead: it computes which samples come next, looks up their names, submits
 * reads and reaps them, and makes batches ready.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "catalog/writer.h"
#include "load/loader_inside.h"
#include "load/locate.h"

/* How long the thread waits for reads before it looks around. */
#define REAP_US 100000
#define REAPED  64u

/* Stalls are looked for no more often: that goes through all slots. */
#define WATCH_NS 50000000

/* Of a sample in pieces, so much is read from a file that is opened once. */
#define SHARED_BYTES (UINT64_C(32) << 20)

/* Of a name that is longer than this, errors show the end. */
#define NAME_SHOWN 90u

/* With the lock held: one of the ring that nobody uses, or NULL. They are given back in any order.
 */
static struct load_batch *free_batch(const struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (l->ring[i].state == BATCH_FREE)
			return &l->ring[i];
	return NULL;
}

struct load_batch *load_batch_of(const struct shoal_loader *l, uint64_t number)
{
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		struct load_batch *b = &l->ring[i];

		if ((b->state == BATCH_FILLING || b->state == BATCH_READY) && b->number == number)
			return b;
	}
	return NULL;
}

/* ---- Errors ---- */

void load_end_epoch(struct shoal_loader *l, int rc, const char *words)
{
	if (l->rc < 0)
		return;
	l->rc = rc;
	snprintf(l->err.msg, sizeof(l->err.msg), "%s", words);
	pthread_cond_broadcast(&l->news);
	pthread_cond_broadcast(&l->work); /* to close what was open for more */
}

int load_judge(const struct shoal_loader *l, const struct load_slot *s, struct shoal_err *err)
{
	struct load_request r = s->request;
	size_t len;

	if (r.len <= l->slot_bytes && r.result >= 0 && (uint64_t)r.result == r.len)
		return 0; /* nearly always */
	len = strlen(s->name);
	r.name = s->name + (len > NAME_SHOWN ? len - NAME_SHOWN : 0); /* its end tells more */
	if (r.len > l->slot_bytes)
		return shoal_fail(err, -EFBIG,
				  "'%s' has %" PRIu64
				  " bytes, and the room for a sample is %" PRIu64
				  ": give it more, or take pieces",
				  r.name, r.len, l->slot_bytes);
	if (r.result < 0)
		return load_engine_why(l->engine, &r, err);
	if ((uint64_t)r.result > r.len)
		return shoal_fail(err, -EFBIG, "'%s' is larger than the %" PRIu64 " bytes that %s",
				  r.name, s->size,
				  l->sizes ? "the catalog has" : "there is room for");
	if ((uint64_t)r.result < r.len && l->sizes)
		return shoal_fail(err, -ENODATA,
				  "'%s' has %" PRIu64 " bytes of the %" PRIu64
				  " that the catalog has",
				  r.name, s->off + (uint64_t)r.result, s->size);
	return 0;
}

/* ---- Filling a batch ---- */

/* Which ETag the file is to have, if it matters and is known. */
static int find_etag(const struct shoal_loader *l, struct load_slot *s, uint64_t file)
{
	int rc = l->options.if_match ? shoal_catalog_etag_of(l->cat, file, &s->etag) : 0;

	s->request.etag =
		rc == 0 && l->options.if_match && shoal_etag_is_kept(&s->etag) ? &s->etag : NULL;
	return rc;
}

/* What to read for the sample: its file, and where in it. */
static int locate(const struct shoal_loader *l, struct load_slot *s, uint64_t id)
{
	struct load_stretch at;
	int rc = load_locate(l->cat, id, s->name, &at);

	if (rc == 0)
		rc = find_etag(l, s, at.file);
	if (rc < 0)
		return rc;
	s->request.inside = at.more || l->made_up; /* there is always more of what is made up */
	s->request.off = at.off;
	s->request.len = at.len;
	if (l->options.object_size) {
		s->request.off = 0;
		s->request.len = l->options.object_size;
	} else if (at.len == SHOAL_SIZE_UNKNOWN) { /* as much as there is room for */
		s->request.len = l->slot_bytes;
	}
	return 0;
}

/*
 * What pieces that follow one another have in common; NULL where a sample is only one. With each
 * step that the kernel reads ahead in one open file it takes larger pages, and few large ones cost
 * less than many small ones. But not for ever: pages of 2 MiB are what a virtual machine may give
 * back to its host while they are free, and it takes long to have them again: see
 * docs/design/load.md.
 */
static struct load_file *share_file(struct shoal_loader *l, const struct load_slot *s)
{
	struct load_cursor *c = &l->cursor;
	uint64_t most = SHARED_BYTES / l->piece;

	if (!l->files || most < 2 || s->size <= l->piece)
		return NULL;
	if (c->off / l->piece % most == 0) {
		c->file = (c->file + 1) % l->nr_files;
		load_file_init(&l->files[c->file],
			       (unsigned)shoal_min((s->size - c->off - 1) / l->piece + 1, most));
	}
	return &l->files[c->file];
}

/* When nothing is in flight: files of which pieces were to come that will not. */
static void close_files(struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_files; i++)
		load_file_release(&l->files[i]);
}

/* Of the sample's stretch the piece that comes next, which may be all of it. */
static void cut_piece(struct shoal_loader *l, struct load_slot *s)
{
	struct load_cursor *c = &l->cursor;
	struct load_request *r = &s->request;

	s->place = (uint32_t)c->next;
	s->off = c->off;
	s->size = r->len;
	r->off += c->off;
	r->len = shoal_min(r->len - c->off, l->piece);
	s->last = c->off + r->len == s->size;
	r->file = share_file(l, s);
	if (s->last) {
		c->off = 0;
		c->next++;
	} else {
		c->off += r->len;
		r->inside = true;
	}
}

/* Which samples the step has. */
static int begin_step(struct shoal_loader *l)
{
	struct load_cursor *c = &l->cursor;
	int64_t nr = shoal_order_batch(l->order, c->step, l->rank, c->ids);

	if (nr < 0)
		return (int)nr;
	c->nr = (uint64_t)nr;
	c->next = c->off = 0;
	c->begun = true;
	return 0;
}

/*
 * The next samples, or pieces, as far as the step goes and the batch has room. Called without the
 * lock: a batch that is being filled is ours.
 */
static int fill(struct shoal_loader *l, struct load_batch *b)
{
	struct load_cursor *c = &l->cursor;
	uint64_t room = shoal_order_spec(l->order)->batch;
	uint32_t i = 0;
	int rc = c->begun ? 0 : begin_step(l);

	for (; rc == 0 && i < room && c->next < c->nr; i++) {
		struct load_slot *s = &b->slot[i];
		uint64_t id = l->options.first + c->ids[c->next];

		s->batch = b;
		s->index = i;
		rc = locate(l, s, id);
		if (rc == 0)
			cut_piece(l, s);
		b->sample[i] = (struct shoal_sample){ .id = id, .off = s->off, .size = s->size };
	}
	if (rc < 0)
		return rc;
	b->public = (struct shoal_batch){
		.step = c->step, .nr = i, .sample = b->sample, .last = c->next == c->nr
	};
	b->nr_submitted = b->nr_done = 0;
	if (b->public.last) {
		c->step += l->options.stride;
		c->begun = false;
	}
	return 0;
}

/* ---- Submitting and reaping ---- */

static void submit(struct shoal_loader *l, struct load_slot *s)
{
	struct load_request *r = &s->request;

	r->name = s->name;
	r->buf = load_pool_slot(&l->pool, (size_t)(s - l->slots));
	r->cap = l->pool.slot;
	s->in_flight = true;
	if (s->off == 0) /* later pieces are there by what was read ahead of the first */
		load_cached_look(&l->cached, s->name, r->off,
				 l->sizes || l->options.object_size ? s->size : SHOAL_SIZE_UNKNOWN);
	load_engine_submit(l->engine, r);
}

/* With the lock held, which it gives up meanwhile: start what there is room for. */
static void submit_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->running == l->wanted && l->next_submit < l->next_fill &&
	       load_engine_pending(l->engine) < l->options.in_flight) {
		struct load_batch *b = load_batch_of(l, l->next_submit);

		if (!b || b->nr_submitted == b->public.nr) { /* taken already, or all in flight */
			l->next_submit++;
			continue;
		}
		if (b->slot[b->nr_submitted].request.len > l->slot_bytes) {
			b->sample[b->nr_submitted++].error = -EFBIG;
			b->nr_done++;
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		submit(l, &b->slot[b->nr_submitted++]);
		pthread_mutex_lock(&l->lock);
		l->stats.nr_pages = l->cached.nr_pages;
		l->stats.nr_cached = l->cached.nr_cached;
	}
}

/* With the lock held: a read has ended, one way or the other. Words are for whoever takes it. */
static void take_done(struct shoal_loader *l, struct load_slot *s)
{
	const struct load_request *r = &s->request;
	struct shoal_sample *sample = &s->batch->sample[s->index];

	s->batch->nr_done++;
	s->in_flight = false;
	if (r->result >= 0)
		load_histogram_add(&l->latency, r->finished - r->started);
	if (r->result >= 0 && r->opened)
		load_histogram_add(&l->open, r->opened - r->started);
	if (r->result >= 0)
		load_histogram_add(&l->read, r->finished - (r->opened ? r->opened : r->started));
	sample->error = load_judge(l, s, NULL);
	if (sample->error < 0)
		return;
	sample->data = r->data;
	sample->len = shoal_min((uint64_t)r->result, r->len);
	if (s->last)
		sample->size = s->off + sample->len; /* which may not have been known */
}

/* With the lock held: batches that are done, in whatever sequence, are ready. */
static void finish_batches(struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		struct load_batch *b = &l->ring[i];

		if (b->state == BATCH_FILLING && b->nr_done == b->public.nr) {
			b->state = BATCH_READY;
			pthread_cond_broadcast(&l->news);
		}
	}
}

/* ---- Stalls ---- */

/* With the lock held: how many samples are in flight for @ms or longer, and the oldest of them. */
static unsigned find_stalled(const struct shoal_loader *l, uint64_t now, uint64_t ms,
			     const struct load_slot **ret_oldest)
{
	unsigned nr = 0;

	*ret_oldest = NULL;
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		const struct load_batch *b = &l->ring[i];

		for (uint32_t k = 0; b->state == BATCH_FILLING && k < b->nr_submitted; k++) {
			const struct load_slot *s = &b->slot[k];

			if (!s->in_flight || (now - s->request.started) / 1000000 < ms)
				continue;
			nr++;
			if (!*ret_oldest || s->request.started < (*ret_oldest)->request.started)
				*ret_oldest = s;
		}
	}
	return nr;
}

/* With the lock held: tell of samples that are in flight for too long, or give up. */
static void watch(struct shoal_loader *l, uint64_t *watched, uint64_t *told)
{
	uint64_t now = load_now(), stall = l->options.stall_ms, timeout = l->options.timeout_ms;
	uint64_t ms = timeout && timeout < stall ? timeout : stall, age;
	const struct load_slot *oldest;
	char words[256];
	unsigned nr;

	if (now - *watched < WATCH_NS)
		return;
	*watched = now;
	nr = find_stalled(l, now, ms, &oldest);
	if (nr == 0)
		return;
	age = (now - oldest->request.started) / 1000000;
	snprintf(words, sizeof(words),
		 "%u sample%s in flight for longer than %g s, the oldest for %.1f s: '%.120s'", nr,
		 nr == 1 ? " is" : "s are", (double)ms * 1e-3, (double)age * 1e-3, oldest->name);
	if (timeout && age >= timeout && l->running != l->wanted) {
		l->rc = -ETIMEDOUT; /* of an epoch that nobody takes from any more */
		snprintf(l->err.msg, sizeof(l->err.msg), "%s", words);
		l->late = true;
		pthread_cond_broadcast(&l->news);
	} else if (timeout && age >= timeout) {
		load_end_epoch(l, -ETIMEDOUT, words);
	} else if (l->options.stalled && (now - *told) / 1000000 >= stall) {
		l->options.stalled(l->options.self, words);
		*told = now;
	}
}

/* ---- The thread ---- */

/* With the lock held: begin the epoch that was asked for, once nothing of the last is in flight. */
static void begin_epoch(struct shoal_loader *l)
{
	close_files(l);
	for (uint32_t i = 0; i < l->nr_ring; i++)
		if (l->ring[i].state != BATCH_HELD)
			l->ring[i].state = BATCH_FREE;
	if (l->running > 0) /* the first stands where the spec says */
		shoal_order_set_epoch(l->order, l->epoch);
	l->steps = shoal_order_steps(l->order);
	l->next_fill = l->next_submit = l->next_take = 0;
	l->cursor.step = l->options.first_step;
	l->all_filled = l->cursor.step >= l->steps;
	l->cursor.begun = l->spoiled = l->late = false;
	l->rc = 0;
	l->stats = (struct shoal_load_stats){ 0 };
	l->sums = (struct load_sums){ 0 };
	memset(&l->latency, 0, sizeof(l->latency));
	memset(&l->open, 0, sizeof(l->open));
	memset(&l->read, 0, sizeof(l->read));
	load_cached_clear(&l->cached);
	load_engine_remote_clear(l->engine);
	l->running = l->wanted;
	pthread_cond_broadcast(&l->news);
}

/* With the lock held, which it gives up meanwhile. */
static void fill_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->running == l->wanted && !l->all_filled) {
		struct load_batch *b = free_batch(l);
		struct shoal_err err = { "" };
		int rc;

		if (!b)
			return;
		pthread_mutex_unlock(&l->lock);
		rc = fill(l, b);
		pthread_mutex_lock(&l->lock);
		if (rc < 0) {
			shoal_catalog_explain(l->cat, rc, &err);
			load_end_epoch(l, rc, err.msg);
			return;
		}
		b->state = BATCH_FILLING;
		b->number = l->next_fill++;
		l->all_filled = l->cursor.step >= l->steps;
	}
}

static void reap(struct shoal_loader *l)
{
	struct load_request *done[REAPED];
	struct shoal_err err = { "" };
	int nr;

	l->reaping = load_engine_pending(l->engine) < l->options.in_flight;
	pthread_mutex_unlock(&l->lock);
	load_engine_kick(l->engine);
	nr = load_engine_reap(l->engine, done, REAPED, REAP_US, &err);
	pthread_mutex_lock(&l->lock);
	l->reaping = false;
	for (int i = 0; i < nr; i++)
		take_done(l, (struct load_slot *)(void *)done[i]);
	if (nr < 0) { /* what is in flight will never be known */
		load_end_epoch(l, nr, err.msg);
		l->broken = nr;
		pthread_cond_broadcast(&l->news);
	}
}

/* With the lock held: whether there is something to do that needs no read to end first. */
static bool can_go_on(const struct shoal_loader *l)
{
	if (l->broken)
		return false;
	if (l->running != l->wanted)
		return true;
	if (l->rc < 0)
		return false;
	if (!l->all_filled && free_batch(l))
		return true;
	return l->next_submit < l->next_fill;
}

void *load_ahead(void *arg)
{
	struct shoal_loader *l = arg;
	uint64_t watched = 0, told = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->closing) {
		if (l->running != l->wanted && load_engine_pending(l->engine) == 0)
			begin_epoch(l);
		if (l->running == l->wanted) {
			fill_more(l);
			submit_more(l);
			finish_batches(l);
		}
		if (load_engine_pending(l->engine) > 0 && !l->broken) {
			reap(l);
			finish_batches(l);
			watch(l, &watched, &told);
		} else if (!l->closing && !can_go_on(l)) {
			if (l->rc < 0 && !l->broken)
				close_files(l);
			pthread_cond_wait(&l->work, &l->lock);
		}
	}
	pthread_mutex_unlock(&l->lock);
	l->engine = load_engine_free(l->engine); /* belongs to this thread; waits for its reads */
	close_files(l);
	return NULL;
}
