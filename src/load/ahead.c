/*
 * The thread that reads ahead: it computes which samples come next, looks up their names, submits
 * reads and reaps them, and makes batches ready.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "catalog/writer.h"
#include "load/kept_files.h"
#include "load/loader_private.h"
#include "load/locate.h"
#include "load/merge_reads.h"

/* How long the thread waits for reads before it checks for other work. */
#define REAP_US 100000
#define REAPED  64u

/* Reads that are submitted at a time; a new epoch has to wait for them. */
#define SUBMITTED 64u

/* The minimum time between checks for stalls; each check visits all slots. */
#define WATCH_NS 50000000

/* How many bytes of a sample in pieces are read before its file is opened again. */
#define SHARED_BYTES (UINT64_C(32) << 20)

/* Errors show only the end of a longer name. */
#define NAME_SHOWN 90u

/* With the lock held: an unused batch of the ring, or NULL. Batches are given back in any order. */
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

void load_end_epoch(struct shoal_loader *l, int rc, const struct shoal_err *err)
{
	if (l->rc < 0)
		return;
	l->rc = rc;
	l->err = *err;
	pthread_cond_broadcast(&l->news);
	pthread_cond_broadcast(&l->work); /* to close a file that was kept open for more pieces */
}

int load_judge(const struct shoal_loader *l, const struct load_slot *s, struct shoal_err *err)
{
	struct load_request r = s->request;
	size_t len;

	if (r.len <= l->slot_bytes && r.result >= 0 && (uint64_t)r.result == r.len)
		return 0; /* almost always */
	len = strlen(r.name);
	r.name += len > NAME_SHOWN ? len - NAME_SHOWN : 0;
	/* The end of a path identifies a file better than its start. */
	if (r.len > l->slot_bytes) {
		err_describe(err, "'%s' has %" PRIu64 " bytes, and there is room for %" PRIu64,
			     r.name, r.len, l->slot_bytes);
		err_hint(err, SHOAL_HINT_LARGER_SLOT, r.len);
		return -EFBIG;
	}
	if (r.result < 0)
		return load_engine_why(l->engine, &r, err);
	if ((uint64_t)r.result > r.len)
		return err_set(err, -EFBIG, "'%s' is larger than the %" PRIu64 " bytes %s", r.name,
			       s->size, l->sizes ? "in the catalog" : "that there is room for");
	if ((uint64_t)r.result < r.len && l->sizes)
		return err_set(err, -ENODATA,
			       "'%s' has only %" PRIu64 " of the %" PRIu64 " bytes in the catalog",
			       r.name, s->off + (uint64_t)r.result, s->size);
	return 0;
}

/* ---- Filling a batch ---- */

/* The ETag that the file must have, or NULL if it is not checked or not known. */
static int find_etag(const struct shoal_loader *l, struct load_slot *s, uint64_t file)
{
	int rc = l->options.if_match ? catalog_etag_of(l->cat, file, &s->etag) : 0;

	s->request.etag =
		rc == 0 && l->options.if_match && etag_is_kept(&s->etag) ? &s->etag : NULL;
	return rc;
}

/* Find the file of the sample, whose name goes to @name, and the extent in it. */
static int ahead_locate(struct shoal_loader *l, struct load_slot *s, uint64_t id, char *name)
{
	struct load_stretch at;
	int rc = load_locate(l->cat, &l->recent, id, name, &at);

	if (rc == 0)
		rc = find_etag(l, s, at.file);
	if (rc < 0)
		return rc;
	s->file = at.file;
	s->request.name = name;
	s->request.inside = at.more || l->synthetic; /* a synthetic file never ends */
	s->request.off = at.off;
	s->request.len = at.len;
	if (l->options.object_size) {
		s->request.off = 0;
		s->request.len = l->options.object_size;
	} else if (at.len == SHOAL_SIZE_UNKNOWN) { /* as much as fits */
		s->request.len = l->slot_bytes;
	}
	return 0;
}

/*
 * The file that consecutive pieces share; NULL if the sample is a single piece. The kernel uses
 * larger pages with each step that it reads ahead in one open file, and few large pages cost
 * less than many small ones. The file is opened again from time to time nevertheless: a virtual
 * machine may return free pages of 2 MiB to its host, and getting them back takes long: see
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
			       (unsigned)u64_min((s->size - c->off - 1) / l->piece + 1, most));
	}
	return &l->files[c->file];
}

/* When nothing is in flight: close files that were kept open, whatever was to be read from them. */
static void ahead_close_files(struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_files; i++)
		load_file_release(&l->files[i]);
	load_kept_forget(l);
}

/* The next piece of the sample's extent, which may be all of it. */
static void cut_piece(struct shoal_loader *l, struct load_slot *s)
{
	struct load_cursor *c = &l->cursor;
	struct load_request *r = &s->request;

	s->place = (uint32_t)c->next;
	s->off = c->off;
	s->size = r->len;
	r->off += c->off;
	r->len = u64_min(r->len - c->off, l->piece);
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

/* Compute the samples of the step. */
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

/* Bytes of buffer for @len bytes of a sample: 0 if the sample is too large to be read. */
static uint64_t buffer_len(const struct shoal_loader *l, uint64_t len)
{
	if (len > l->slot_bytes)
		return 0;
	return l->buffer_len ? l->buffer_len : load_buffer_len(len, l->anywhere);
}

/* Whether this batch would exceed the limit with the next piece, which then goes to the next
 * batch. */
static bool ahead_is_full(const struct shoal_loader *l, const struct load_slot *s, uint64_t need)
{
	uint64_t len;

	if (l->piece == UINT64_MAX || !l->pool.is.limited || need == 0)
		return false;
	len = buffer_len(l, u64_min(s->request.len - l->cursor.off, l->piece));
	return len > l->pool.is.len || need > l->pool.is.len - len;
}

/* Add the next samples, or pieces, until the step or the room of the batch's next part ends. The
 * names of their files go to *@name, which is advanced. */
static int ahead_fill_part(struct shoal_loader *l, struct load_batch *b, char **name)
{
	struct load_cursor *c = &l->cursor;
	uint64_t room = shoal_order_spec(l->order)->batch;
	struct load_part *p = &b->part[b->nr_parts];
	uint32_t first = b->nr;
	int rc = c->begun ? 0 : begin_step(l);

	for (; rc == 0 && b->nr - first < room && c->next < c->nr; b->nr++) {
		struct load_slot *s = &b->slot[b->nr];
		uint64_t id = l->options.first + c->ids[c->next];

		s->batch = b;
		s->index = b->nr;
		rc = ahead_locate(l, s, id, *name);
		if (rc < 0 || ahead_is_full(l, s, b->need))
			break;
		cut_piece(l, s);
		*name += strlen(*name) + 1;
		s->request.cap = buffer_len(l, s->request.len);
		if (__builtin_add_overflow(b->need, s->request.cap, &b->need))
			b->need = UINT64_MAX;
		b->sample[b->nr] =
			(struct shoal_sample){ .id = id, .off = s->off, .size = s->size };
	}
	if (rc < 0)
		return rc;
	*p = (struct load_part){ .public = { .step = c->step,
					     .nr = b->nr - first,
					     .sample = b->sample + first,
					     .last = c->next == c->nr },
				 .batch = b,
				 .first = first };
	b->nr_parts++;
	if (p->public.last) {
		c->step += l->options.stride;
		c->begun = false;
	}
	return 0;
}

/* Fill a batch. Called without the lock: only this thread uses a batch that is being filled. */
static int ahead_fill(struct shoal_loader *l, struct load_batch *b)
{
	char *name = b->names;
	int rc;

	b->need = 0;
	b->nr = b->nr_parts = b->nr_taken = b->nr_given = b->nr_submitted = b->nr_done = 0;
	do
		rc = ahead_fill_part(l, b, &name);
	while (rc == 0 && b->nr_parts < l->together && l->cursor.step < l->steps);
	if (rc == 0)
		load_merge(l, b);
	return rc;
}

/* ---- Submitting and reaping ---- */

static void submit(struct shoal_loader *l, struct load_slot *s)
{
	struct load_request *r = &s->request;

	s->in_flight = true;
	load_keep_file(l, s);
	if (s->off == 0) /* readahead for the first piece has already read the later ones */
		load_cached_look(&l->cached, r->name, r->off,
				 l->sizes || l->options.object_size ? s->size : SHOAL_SIZE_UNKNOWN);
	load_engine_submit(l->engine, r);
}

/* Without the lock: submit up to @most reads of a batch, in which only this thread uses what it
 * changes here. */
static void submit_some(struct shoal_loader *l, struct load_batch *b, unsigned most)
{
	while (b->nr_submitted < b->nr && most > 0) {
		struct load_slot *s = &b->slot[b->nr_submitted++];

		if (s->follows)
			continue;
		if (s->len > l->slot_bytes) {
			b->sample[s->index].error = -EFBIG;
			b->nr_done++;
			continue;
		}
		submit(l, s);
		most--;
	}
}

/* With the lock held, which it releases meanwhile: submit reads until the engine is full. */
static void submit_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->running == l->wanted && l->next_submit < l->next_fill) {
		struct load_batch *b = load_batch_of(l, l->next_submit);
		unsigned pending = load_engine_pending(l->engine),
			 depth = load_engine_depth(l->engine);

		if (!b ||
		    b->nr_submitted == b->nr) { /* taken already, or everything is in flight */
			l->next_submit++;
			continue;
		}
		if (pending >= depth)
			return;
		pthread_mutex_unlock(&l->lock);
		submit_some(l, b, (unsigned)u64_min(depth - pending, SUBMITTED));
		pthread_mutex_lock(&l->lock);
		l->stats.nr_pages = l->cached.nr_pages;
		l->stats.nr_cached = l->cached.nr_cached;
	}
}

/* With the lock held: record that a sample was read. Its error is reported when the batch is
 * taken. */
static void sample_done(struct shoal_loader *l, struct load_slot *s)
{
	const struct load_request *r = &s->request;
	struct shoal_sample *sample = &s->batch->sample[s->index];

	s->batch->nr_done++;
	s->in_flight = false;
	if (r->result >= 0)
		histogram_add(&l->latency, r->finished - r->started);
	if (r->result >= 0 && r->opened)
		histogram_add(&l->open, r->opened - r->started);
	if (r->result >= 0)
		histogram_add(&l->read, r->finished - (r->opened ? r->opened : r->started));
	sample->error = load_judge(l, s, NULL);
	if (sample->error < 0)
		return;
	sample->data = r->data;
	sample->len = u64_min((uint64_t)r->result, r->len);
	if (s->last)
		sample->size = s->off + sample->len; /* the size may not have been known */
}

/* With the lock held: record that a read has ended, for all its samples. */
static void ahead_done(struct shoal_loader *l, struct load_slot *s)
{
	const struct load_request *r = &s->request;

	l->stats.nr_reads++;
	l->stats.nr_opens += r->opens;
	l->stats.bytes_read += r->result > 0 ? u64_min((uint64_t)r->result, r->len) : 0;
	load_unmerge(s);
	for (; s; s = s->next)
		sample_done(l, s);
}

/* With the lock held: mark completed batches as ready, in any sequence. */
static void finish_batches(struct shoal_loader *l)
{
	for (uint32_t i = 0; i < l->nr_ring; i++) {
		struct load_batch *b = &l->ring[i];

		if (b->state == BATCH_FILLING && b->nr_done == b->nr) {
			b->state = BATCH_READY;
			pthread_cond_broadcast(&l->news);
		}
	}
}

/* ---- Stalls ---- */

/* With the lock held: how many samples have been in flight for @ms or longer, and the oldest. */
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

/* With the lock held: report samples that are in flight for too long, or fail after the timeout. */
static void watch(struct shoal_loader *l, uint64_t *watched, uint64_t *reported)
{
	uint64_t now = clock_now(), stall = l->options.stall_ms, timeout = l->options.timeout_ms;
	uint64_t ms = timeout && timeout < stall ? timeout : stall, age;
	struct shoal_err err = { "" };
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
		 nr == 1 ? " is" : "s are", (double)ms * 1e-3, (double)age * 1e-3,
		 oldest->request.name);
	if (timeout && age >= timeout && l->running != l->wanted) {
		/* it may be a read of an abandoned epoch */
		l->rc = err_set(&l->err, -ETIMEDOUT, "%s", words);
		l->late = true;
		pthread_cond_broadcast(&l->news);
	} else if (timeout && age >= timeout) {
		err_describe(&err, "%s", words);
		load_end_epoch(l, -ETIMEDOUT, &err);
	} else if (l->options.stalled && (now - *reported) / 1000000 >= stall) {
		l->options.stalled(l->options.self, words);
		*reported = now;
	}
}

/* ---- The thread ---- */

/* With the lock held: begin the requested epoch once nothing of the previous one is in flight. */
static void begin_epoch(struct shoal_loader *l)
{
	ahead_close_files(l);
	for (uint32_t i = 0; i < l->nr_ring; i++) { /* parts that were not taken are dropped */
		struct load_batch *b = &l->ring[i];

		b->nr_parts = b->nr_taken;
		b->state = b->nr_given < b->nr_taken ? BATCH_HELD : BATCH_FREE;
	}
	if (l->running > 0) /* the first epoch starts where the spec says */
		shoal_order_set_epoch(l->order, l->epoch);
	l->steps = shoal_order_steps(l->order);
	if (l->options.steps)
		l->steps = u64_min(l->steps, l->options.steps);
	l->next_fill = l->next_submit = l->next_take = 0;
	l->cursor.step = l->options.first_step;
	l->all_filled = l->cursor.step >= l->steps;
	l->cursor.begun = l->spoiled = l->late = false;
	l->waiting = NULL;
	l->blocked = l->beyond = false;
	l->freed = true;
	l->unfit = l->rc = 0;
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

/* With the lock held, which it releases meanwhile: free the memory of batches given back. */
static void free_rooms(struct shoal_loader *l)
{
	while (l->freed) {
		l->freed = false;
		for (uint32_t i = 0; i < l->nr_ring; i++) {
			if (l->ring[i].state != BATCH_FREE || load_room_is_empty(&l->ring[i].room))
				continue;
			pthread_mutex_unlock(&l->lock); /* unmapping is slow */
			load_pool_give(&l->pool, &l->ring[i].room);
			pthread_mutex_lock(&l->lock);
		}
	}
}

/* With the lock held, which it releases meanwhile: determine the samples of the next batch. */
static bool fill_next(struct shoal_loader *l)
{
	struct load_batch *b = l->all_filled ? NULL : free_batch(l);
	struct shoal_err err = { "" };
	int rc;

	if (!b)
		return false;
	pthread_mutex_unlock(&l->lock);
	rc = ahead_fill(l, b);
	pthread_mutex_lock(&l->lock);
	if (rc < 0) {
		shoal_catalog_explain(l->cat, rc, &err);
		load_end_epoch(l, rc, &err);
		return false;
	}
	b->state = BATCH_WAITING;
	l->waiting = b;
	return true;
}

/* With the lock held: the reason why the waiting batch will never get memory. */
static int explain_unfit(const struct shoal_loader *l, struct shoal_err *err)
{
	const struct load_batch *b = l->waiting;

	if (l->pool.is.limited && b->need > l->pool.is.len)
		return err_set(err, -ENOMEM,
			       "the batch of step %" PRIu64 " needs %" PRIu64
			       " bytes of memory, and the limit is %" PRIu64
			       ": raise the memory limit or lower the batch size",
			       b->part->public.step, b->need, l->options.memory);
	return err_set(err, -ENOMEM,
		       "no memory for the batch of step %" PRIu64 ", which needs %" PRIu64
		       " bytes: lower the batch size",
		       b->part->public.step, b->need);
}

/* With the lock held: allocate memory for the waiting batch, so that it can be read. A permanent
 * error is reported when that batch is taken: the batches before it are good. */
static bool place_waiting(struct shoal_loader *l)
{
	struct load_batch *b = l->waiting;
	bool too_large = l->pool.is.limited && b->need > l->pool.is.len;
	int rc = -ENOMEM;

	if (l->blocked)
		return false;
	if (!too_large)
		rc = load_pool_take(&l->pool, b->slot, b->nr, b->need, l->beyond, &b->room);
	/* Memory may become available once other batches are given back. */
	if (rc == -ENOMEM && (too_large || l->beyond || l->pool.nr_rooms == 0))
		l->unfit = explain_unfit(l, &l->unfit_err);
	if (rc < 0) {
		l->blocked = true;
		pthread_cond_broadcast(&l->news);
		return false;
	}
	l->waiting = NULL;
	l->beyond = false;
	l->unfit = 0;
	b->state = BATCH_FILLING;
	b->number = l->next_fill++;
	l->all_filled = l->cursor.step >= l->steps;
	return true;
}

/* With the lock held: whether all reads of the batches that have memory were submitted, and the
 * engine has room for more. */
static bool is_room(const struct shoal_loader *l)
{
	return l->next_submit == l->next_fill &&
	       load_engine_pending(l->engine) < load_engine_depth(l->engine);
}

/* With the lock held, which it releases meanwhile. A batch gets its memory when its reads can be
 * submitted: so a fast consumer is served from little memory, which stays in caches. */
static void fill_more(struct shoal_loader *l)
{
	while (l->rc == 0 && l->running == l->wanted) {
		free_rooms(l);
		if (!l->waiting && !fill_next(l))
			return;
		/* Filling released the lock: a batch given back meanwhile must count below. */
		free_rooms(l);
		if (!is_room(l) || (l->running == l->wanted && !place_waiting(l)))
			return;
	}
}

static void reap(struct shoal_loader *l)
{
	struct load_request *done[REAPED];
	struct shoal_err err = { "" };
	int nr;

	l->reaping = load_engine_pending(l->engine) < load_engine_depth(l->engine);
	pthread_mutex_unlock(&l->lock);
	load_engine_kick(l->engine);
	nr = load_engine_reap(l->engine, done, REAPED, REAP_US, &err);
	pthread_mutex_lock(&l->lock);
	l->reaping = false;
	for (int i = 0; i < nr; i++)
		ahead_done(l, (struct load_slot *)(void *)done[i]);
	if (nr < 0) { /* the reads in flight can no longer be reaped */
		load_end_epoch(l, nr, &err);
		l->broken = nr;
		pthread_cond_broadcast(&l->news);
	}
}

/* With the lock held: whether there is work that does not depend on a read in flight. */
static bool can_go_on(const struct shoal_loader *l)
{
	if (l->freed)
		return true;
	if (l->broken)
		return false;
	if (l->running != l->wanted)
		return true;
	if (l->rc < 0)
		return false;
	if (l->waiting ? !l->blocked : !l->all_filled && free_batch(l))
		return true;
	return l->next_submit < l->next_fill;
}

void *load_ahead(void *arg)
{
	struct shoal_loader *l = arg;
	uint64_t watched = 0, reported = 0;

	pthread_mutex_lock(&l->lock);
	while (!l->closing) {
		free_rooms(l);
		if (l->running != l->wanted && load_engine_pending(l->engine) == 0)
			begin_epoch(l);
		if (l->running == l->wanted) {
			do {
				fill_more(l);
				submit_more(l);
			} while (l->waiting && !l->blocked && l->rc == 0 && is_room(l) &&
				 l->running == l->wanted);
			finish_batches(l);
		}
		if (load_engine_pending(l->engine) > 0 && !l->broken) {
			reap(l);
			finish_batches(l);
			watch(l, &watched, &reported);
		} else if (!l->closing && !can_go_on(l)) {
			if (l->rc < 0 && !l->broken)
				ahead_close_files(l);
			pthread_cond_wait(&l->work, &l->lock);
		}
	}
	pthread_mutex_unlock(&l->lock);
	l->engine = load_engine_free(
		l->engine); /* only this thread uses the engine; this waits for its reads */
	ahead_close_files(l);
	return NULL;
}
