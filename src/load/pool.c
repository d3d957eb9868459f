#include "load/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load/loader_private.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

/* ---- The range ---- */

/* @len bytes, which begin at a huge page if they contain one; or NULL. */
static uint8_t *map_range(uint64_t len, int flags)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), spare = len < HUGE_PAGE ? 0 : HUGE_PAGE;
	uint8_t *at, *start;

	if (len > SIZE_MAX / 2)
		return NULL;
	len = (len + page - 1) / page *
	      page; /* munmap() below takes whole pages, which may have 64 KiB */
	at = mmap(NULL, len + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags,
		  -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	start = at + (spare ? (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE : 0);
	if (start > at)
		munmap(at, (size_t)(start - at));
	if (at + spare > start)
		munmap(start + len, (size_t)(at + spare - start));
	/* Fewer pages to pin and to look up: a third of the cost of a direct read of 300 KB. */
	(void)!madvise(start, len, MADV_HUGEPAGE);
	return start;
}

static int announce(struct load_pool *p, struct shoal_err *err)
{
	int rc = 0;

	assert((!p->is.added && !p->is.removed) || p->is.kept == p->is.len);
	if (p->is.added)
		rc = p->is.added(p->is.self, p->bytes, p->is.len);
	p->announced = rc == 0;
	if (rc == 0)
		return 0;
	/* Others' numbers of errors, such as CUDA's, are not errnos. */
	return err_set_errno(err, rc < 0 ? rc : -EIO,
			     "cannot register %llu bytes of memory for samples",
			     (unsigned long long)p->is.len);
}

int load_pool_init(struct load_pool *p, const struct load_pool_options *options,
		   struct shoal_err *err)
{
	*p = (struct load_pool){ .is = *options };
	p->gap = calloc((size_t)options->nr_batches * LOAD_PARTS + 1, sizeof(*p->gap));
	if (!p->gap)
		return err_set(err, -ENOMEM, "out of memory");
	/* Most of a range that is larger than its kept part is never used. */
	if (options->len > options->kept)
		p->bytes = map_range(options->len, MAP_NORESERVE);
	if (!p->bytes && !options->limited)
		p->is.len = options->kept;
	if (!p->bytes)
		p->bytes = map_range(p->is.len, 0);
	if (!p->bytes)
		return err_set(err, -ENOMEM,
			       "no memory for %llu bytes of samples: lower the batch, the "
			       "prefetch or the slot",
			       (unsigned long long)p->is.len);
	p->gap[0] = (struct load_extent){ 0, p->is.len };
	p->nr_gaps = 1;
	atomic_init(&p->now, options->kept);
	atomic_init(&p->peak, options->kept);
	return announce(p, err);
}

void load_pool_release(struct load_pool *p)
{
	if (p->announced && p->is.removed)
		p->is.removed(p->is.self, p->bytes, p->is.len);
	p->announced = false;
	if (p->bytes)
		munmap(p->bytes, p->is.len);
	free(p->gap);
	p->bytes = NULL;
	p->gap = NULL;
}

/* ---- The figures ---- */

/* The bytes of a batch's memory that are not kept when it is given back. */
static uint64_t extra_of(const struct load_pool *p, const struct load_room *room)
{
	uint64_t sum = room->own_len;

	for (uint32_t i = 0; i < room->nr_parts; i++) {
		uint64_t end = room->part[i].off + room->part[i].len;

		if (end > p->is.kept)
			sum += u64_min(end - p->is.kept, room->part[i].len);
	}
	return sum;
}

static void count_taken(struct load_pool *p, const struct load_room *room)
{
	uint64_t now = p->now + extra_of(p, room);

	p->now = now;
	if (now > p->peak)
		p->peak = now;
	p->nr_rooms++;
}

/* ---- Taking ---- */

static void remove_empty_gaps(struct load_pool *p)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < p->nr_gaps; i++)
		if (p->gap[i].len > 0)
			p->gap[nr++] = p->gap[i];
	p->nr_gaps = nr;
}

/* Take the front of a gap for the batch. */
static void take_front(struct load_pool *p, uint32_t g, uint64_t len, struct load_room *room)
{
	struct load_extent *gap = &p->gap[g];

	room->part[room->nr_parts++] = (struct load_extent){ gap->off, len };
	gap->off += len;
	gap->len -= len;
}

/* The bytes of a gap that belong to the kept part. */
static uint64_t kept_of(const struct load_pool *p, const struct load_extent *gap)
{
	return gap->off < p->is.kept ? u64_min(gap->len, p->is.kept - gap->off) : 0;
}

/* Take all from one gap of the kept part, one sample after another: the case of most batches. */
static bool pool_take_whole(struct load_pool *p, struct load_slot *slot, size_t nr, uint64_t need,
			    struct load_room *room)
{
	uint32_t g = 0;
	uint8_t *at;

	while (g < p->nr_gaps && kept_of(p, &p->gap[g]) < need)
		g++;
	if (g == p->nr_gaps)
		return false;
	at = p->bytes + p->gap[g].off;
	for (size_t i = 0; i < nr; i++) {
		slot[i].request.buf = at;
		at += slot[i].request.cap;
	}
	take_front(p, g, u64_max(need, u64_min(p->is.lane, kept_of(p, &p->gap[g]))), room);
	remove_empty_gaps(p);
	return true;
}

/* The gaps that a batch is spread over. */
struct part_spread {
	uint32_t gap[LOAD_PARTS];
	uint64_t used[LOAD_PARTS];
	uint32_t nr;
};

static bool is_used(const struct part_spread *s, uint32_t g)
{
	for (uint32_t k = 0; k < s->nr; k++)
		if (s->gap[k] == g)
			return true;
	return false;
}

/* The first unused gap that has @cap bytes; for the last part, the largest gap. */
static uint32_t another_gap(const struct load_pool *p, const struct part_spread *s, uint64_t cap)
{
	uint32_t found = UINT32_MAX;

	for (uint32_t g = 0; g < p->nr_gaps; g++) {
		if (p->gap[g].len < cap || is_used(s, g))
			continue;
		if (s->nr + 1 < LOAD_PARTS)
			return g;
		if (found == UINT32_MAX || p->gap[g].len > p->gap[found].len)
			found = g;
	}
	return found;
}

/* The part that has @cap bytes left: an existing or a new one. LOAD_PARTS: there is none. */
static uint32_t find_part(const struct load_pool *p, struct part_spread *s, uint64_t cap)
{
	uint32_t g;

	for (uint32_t k = 0; k < s->nr; k++)
		if (p->gap[s->gap[k]].len - s->used[k] >= cap)
			return k;
	g = s->nr < LOAD_PARTS ? another_gap(p, s, cap) : UINT32_MAX;
	if (g == UINT32_MAX)
		return LOAD_PARTS;
	s->gap[s->nr] = g;
	return s->nr++;
}

/* Spread over several gaps, from the front, so that the kept part is used before other pages.
 * Returns how many bytes found no place; the slots that need them are left without a buffer. */
static uint64_t spread_out(const struct load_pool *p, struct load_slot *slot, size_t nr,
			   struct part_spread *ret_spread)
{
	uint64_t rest = 0;

	*ret_spread = (struct part_spread){ .nr = 0 };
	for (size_t i = 0; i < nr; i++) {
		struct load_request *r = &slot[i].request;
		uint32_t k = r->cap > 0 ? find_part(p, ret_spread, r->cap) : LOAD_PARTS;

		r->buf = NULL;
		if (k == LOAD_PARTS) {
			rest += r->cap;
			continue;
		}
		r->buf = p->bytes + p->gap[ret_spread->gap[k]].off + ret_spread->used[k];
		ret_spread->used[k] += r->cap;
	}
	return rest;
}

/* Undo the placement. Returns how many bytes need a place. */
static uint64_t clear_buffers(struct load_slot *slot, size_t nr, struct part_spread *s)
{
	uint64_t sum = 0;

	s->nr = 0;
	for (size_t i = 0; i < nr; i++) {
		slot[i].request.buf = NULL;
		sum += slot[i].request.cap;
	}
	return sum;
}

/* Map memory for the slots that have no buffer. */
static int map_rest(struct load_slot *slot, size_t nr, uint64_t len, struct load_room *room)
{
	uint8_t *at = map_range(len, 0);

	if (!at)
		return -ENOMEM;
	room->own = at;
	room->own_len = len;
	for (size_t i = 0; i < nr; i++)
		if (!slot[i].request.buf) {
			slot[i].request.buf = at;
			at += slot[i].request.cap;
		}
	return 0;
}

int load_pool_take(struct load_pool *p, struct load_slot *slot, size_t nr, uint64_t need,
		   bool beyond, struct load_room *ret_room)
{
	struct load_room room = { .nr_parts = 0 };
	struct part_spread s;
	uint64_t rest;

	if (need == UINT64_MAX) /* the sum overflows */
		return -ENOMEM;
	if (need == 0) {
		*ret_room = room;
		return 0;
	}
	if (!pool_take_whole(p, slot, nr, need, &room)) {
		rest = spread_out(p, slot, nr, &s);
		if (rest > 0 && p->is.limited) {
			if (!beyond)
				return -EAGAIN;
			rest = clear_buffers(slot, nr, &s); /* another gap may fit the next slot */
		}
		if (rest > 0 && map_rest(slot, nr, rest, &room) < 0)
			return -ENOMEM;
		for (uint32_t k = 0; k < s.nr; k++)
			take_front(p, s.gap[k], s.used[k], &room);
		remove_empty_gaps(p);
	}
	count_taken(p, &room);
	*ret_room = room;
	return 0;
}

/* ---- Giving back ---- */

/* Return it to its gap, and report which one that is. */
static const struct load_extent *add_gap(struct load_pool *p, const struct load_extent *e)
{
	uint32_t g = 0;

	while (g < p->nr_gaps && p->gap[g].off < e->off)
		g++;
	if (g > 0 && p->gap[g - 1].off + p->gap[g - 1].len == e->off) {
		p->gap[--g].len += e->len;
	} else {
		memmove(&p->gap[g + 1], &p->gap[g], (p->nr_gaps - g) * sizeof(*p->gap));
		p->gap[g] = *e;
		p->nr_gaps++;
	}
	if (g + 1 < p->nr_gaps && p->gap[g].off + p->gap[g].len == p->gap[g + 1].off) {
		p->gap[g].len += p->gap[g + 1].len;
		memmove(&p->gap[g + 1], &p->gap[g + 2], (p->nr_gaps - g - 2) * sizeof(*p->gap));
		p->nr_gaps--;
	}
	return &p->gap[g];
}

/* Return the pages of an extent that are not kept to the system: whole huge pages if the gap has
 * the rest of them, because the kernel does not free a part of one at once. */
static void drop_pages(const struct load_pool *p, const struct load_extent *e,
		       const struct load_extent *gap)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = e->off + e->len;
	uint64_t from = u64_max(e->off / HUGE_PAGE * HUGE_PAGE, u64_max(gap->off, p->is.kept));
	uint64_t to = u64_min((end + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, gap->off + gap->len);

	from = (from + page - 1) / page * page;
	to = to / page * page;
	if (end > p->is.kept && from < to)
		(void)!madvise(p->bytes + from, to - from, MADV_DONTNEED);
}

void load_pool_give(struct load_pool *p, struct load_room *room)
{
	if (load_room_is_empty(room))
		return;
	p->now -= extra_of(p, room);
	p->nr_rooms--;
	for (uint32_t i = 0; i < room->nr_parts; i++)
		drop_pages(p, &room->part[i], add_gap(p, &room->part[i]));
	if (room->own)
		munmap(room->own, room->own_len);
	*room = (struct load_room){ .nr_parts = 0 };
}
