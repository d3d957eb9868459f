#include "load/merge_reads.h"

#include <stdlib.h>

/*
 * The most bytes between two samples that are read and discarded rather than skipped by a second
 * read: as many as take as long as a read without them. bench/read_cost.py measures that; the table
 * is in docs/design/load.md.
 */
#define GAP_OF_FILES   (UINT64_C(32) << 10)
#define GAP_OF_OBJECTS (UINT64_C(96) << 10)

/* A read that is this long is not merged with the next: more reads in flight are faster. */
#define MERGED_MAX (UINT64_C(1) << 20)

/*
 * Steps that are read together (LOAD_READ_LEAST) may be more than the caller's prefetch, but not
 * more bytes than AHEAD_MAX; nor more than STEPS_MAX, because each sample takes about 300 bytes
 * besides its own.
 */
#define AHEAD_MAX (UINT64_C(8) << 20)
#define STEPS_MAX 1024u

/* Gaps and whole pages: a batch that takes more of them goes beyond the memory that is kept. */
#define MERGED_SLACK (UINT64_C(64) << 10)

/* By place: the file, then the offset. */
static int compare_places(const void *a, const void *b)
{
	const struct load_slot *x = *(struct load_slot *const *)a;
	const struct load_slot *y = *(struct load_slot *const *)b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->request.off != y->request.off)
		return x->request.off < y->request.off ? -1 : 1;
	return x->index < y->index ? -1 : 1;
}

/* Let @s follow @lead, whose chain ends with @tail, if one read of both pays. */
static bool merge_join(const struct shoal_loader *l, struct load_slot *lead, struct load_slot *tail,
		       struct load_slot *s)
{
	struct load_request *r = &lead->request;
	uint64_t end = r->off + r->len, off = s->request.off, len = off + s->request.len - r->off;
	uint64_t gap = l->store->traits.objects ? GAP_OF_OBJECTS : GAP_OF_FILES;
	uint64_t own = lead->own_cap + s->request.cap, cap;

	if (s->file != lead->file || s->request.len > l->slot_bytes || off < end ||
	    off - end > gap || len > MERGED_MAX)
		return false;
	cap = load_cap(r->off, len);
	if (cap > own * (l->options.memory ? 1 : LOAD_MERGED_MEMORY))
		return false;
	lead->own_cap = own;
	r->len = len;
	r->inside = s->request.inside;
	r->cap = u64_max(cap, r->cap);
	s->request.cap = 0;
	s->follows = true;
	tail->next = s;
	return true;
}

/* How many samples of a step have positions that continue those of the step before, in each of the
 * rank's lanes; 0: none do. */
static uint64_t merge_row(const struct shoal_loader *l)
{
	const struct shoal_order_spec *s = shoal_order_spec(l->order);
	uint64_t step = s->batch * s->nr_ranks;

	if (s->mode != SHOAL_SEQUENTIAL && s->mode != SHOAL_FILES && s->mode != SHOAL_WINDOW)
		return 0;
	if (l->options.stride != 1)
		return 0;
	if (s->lanes % s->nr_ranks == 0 && s->lane_batch * s->lanes == step)
		return s->lane_batch;
	return s->nr_ranks == 1 && s->lanes == 1 ? s->batch : 0;
}

uint32_t load_merge_steps(const struct shoal_loader *l, uint64_t mean)
{
	const struct shoal_order_spec *s = shoal_order_spec(l->order);
	uint64_t nr, row = mean < LOAD_READ_LEAST ? mean * merge_row(l) : LOAD_READ_LEAST;

	/* A memory limit is for the batches that the caller has asked for. */
	if (l->options.memory || row == 0 || row >= LOAD_READ_LEAST)
		return 1;
	nr = u64_min(u64_divide_up(LOAD_READ_LEAST, row), STEPS_MAX);
	nr = u64_min(nr, AHEAD_MAX / (mean * s->batch * l->nr_ring));
	return (uint32_t)u64_max(1, u64_min(nr, s->nr_samples / (s->batch * s->nr_ranks)));
}

uint64_t load_merged_bytes(uint64_t nr, uint64_t mean)
{
	return load_cap(0, nr * mean) + MERGED_SLACK;
}

int load_merge_init(struct shoal_loader *l, uint64_t nr)
{
	l->sorted = calloc(nr, sizeof(struct load_slot *));
	return l->sorted ? 0 : -ENOMEM;
}

void load_merge(struct shoal_loader *l, struct load_batch *b)
{
	struct load_slot **sorted = l->sorted, *lead = NULL, *tail = NULL;
	uint32_t nr = b->nr;

	for (uint32_t i = 0; i < nr; i++) {
		b->slot[i].len = b->slot[i].request.len;
		b->slot[i].inside = b->slot[i].request.inside;
		b->slot[i].follows = false;
		b->slot[i].own_cap = b->slot[i].request.cap;
		b->slot[i].next = NULL;
		if (sorted)
			sorted[i] = &b->slot[i];
	}
	if (!sorted)
		return;
	qsort(sorted, nr, sizeof(struct load_slot *), compare_places);
	b->need = 0;
	for (uint32_t i = 0; i < nr; i++) {
		if (!lead || lead->len > l->slot_bytes || !merge_join(l, lead, tail, sorted[i]))
			lead = sorted[i];
		tail = sorted[i];
	}
	for (uint32_t i = 0; i < nr; i++)
		if (__builtin_add_overflow(b->need, b->slot[i].request.cap, &b->need))
			b->need = UINT64_MAX;
}

void load_unmerge(struct load_slot *s)
{
	const struct load_request r = s->request; /* of the whole read */

	if (!s->next)
		return;
	for (; s; s = s->next) {
		struct load_request *own = &s->request;
		uint64_t at = own->off - r.off, most = s->len + !s->inside;

		own->len = s->len;
		own->inside = s->inside;
		own->started = r.started;
		own->opened = r.opened;
		own->finished = r.finished;
		own->data = r.data + at;
		own->result = r.result;
		if (r.result >= 0)
			own->result = (uint64_t)r.result > at
					      ? (int64_t)u64_min((uint64_t)r.result - at, most)
					      : 0;
	}
}
