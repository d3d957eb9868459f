#include "store/s3/ranges.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CUTS_MAX 64u /* of one range, at a time */

/*
 * A range is split only if it has at least this many pages left, including the page being
 * requested. The limit rises with the share of requests that found less than a page, apart from the
 * first few: by up to WASTE_PAGES if all of them did.
 */
#define LEAST_PAGES 1.8
#define WASTE_PAGES 45.0
#define WASTE_FREE  8.0

/* Parts are smaller than a number of whole pages by this much, because estimates are not exact. */
#define SLACK 0.12

/* After the highest name seen, as many pages are assumed as were seen, but at first this many. */
#define UNKNOWN_PAGES 64.0

/* To find the end: at most this many splits at a time, and per doubling of the pages seen. */
#define UNKNOWN_CUTS  24u
#define DOUBLING_CUTS 8.0

/* This many requests may find nothing, and in addition one per this many pages. */
#define EMPTY_FREE 24.0
#define EMPTY_ONE  16.0

/* The weight of the average over all ranges, in pages, against a range's own pages. */
#define PRIOR_PAGES 2.0

/* Names whose values are this many times as far apart as their number look hashed. */
#define HASH_SPAN 4.0

/* A page that covers fewer numbers cannot be measured well on the whole scale. */
#define NUMBERS_MIN 8.0

/* Pages that are remembered, to be measured again after new names were seen. */
#define SAMPLES 64u

struct ranges_sample {
	uint8_t from_len, to_len;
	uint8_t from[S3_KEYS_PLACES], to[S3_KEYS_PLACES];
	double pages;
};

struct s3_ranges {
	struct s3_keys keys;  /* atomic */
	pthread_mutex_t lock; /* protects the rest, and all ranges */
	struct s3_range *active;
	struct s3_name lowest, highest; /* that were seen, or are known to precede the first name */
	struct s3_name end;             /* nothing comes after it */
	bool seen, ended, hashed;
	size_t page_keys; /* keys in a full page: the most seen */
	double nr_requests, nr_empty;
	double pages, covered; /* numbers of the whole scale that pages covered */
	uint64_t version;      /* of the keys that it was made for */
	struct s3_scale whole;
	struct ranges_sample sample[SAMPLES];
	uint64_t nr_samples, random;
	struct s3_name cut[CUTS_MAX];
};

struct s3_ranges *s3_ranges_new(void)
{
	struct s3_ranges *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	pthread_mutex_init(&r->lock, NULL);
	r->version = UINT64_MAX;
	r->page_keys = 1;
	r->random = 1;
	return r;
}

struct s3_ranges *s3_ranges_free(struct s3_ranges *r)
{
	if (r)
		pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

static void set(struct s3_name *to, const uint8_t *name, size_t len)
{
	to->len = (size_t)u64_min(len, SHOAL_NAME_MAX);
	memmove(to->bytes, name, to->len);
}

static void ranges_copy(struct s3_name *to, const struct s3_name *from)
{
	set(to, from->bytes, from->len);
}

static size_t shared(const struct s3_name *a, const struct s3_name *b)
{
	return name_shared(a->bytes, a->len, b->bytes, b->len);
}

/* ---- The whole scale, and how much of it a page covers ---- */

static uint64_t ranges_number(const struct s3_scale *s, const struct s3_name *name)
{
	return s3_scale_at(s, name->bytes, name->len);
}

static double distance(const struct s3_scale *s, const struct s3_name *from,
		       const struct s3_name *to)
{
	uint64_t a = ranges_number(s, from), b = ranges_number(s, to);

	return b > a ? (double)(b - a) : 0;
}

static double sample_covers(const struct s3_scale *s, const struct ranges_sample *p)
{
	uint64_t a = s3_scale_at(s, p->from, p->from_len), b = s3_scale_at(s, p->to, p->to_len);

	return b > a ? (double)(b - a) : 0;
}

/* After new bytes were seen in names all numbers change: measure again. */
static void renew_whole(struct s3_ranges *r)
{
	uint64_t version = __atomic_load_n(&r->keys.version, __ATOMIC_ACQUIRE);
	size_t nr = (size_t)u64_min(r->nr_samples, SAMPLES);
	double pages = 0, covered = 0;

	if (version == r->version)
		return;
	r->version = version;
	s3_scale_under(&r->whole, &r->keys, r->lowest.bytes, 0);
	for (size_t i = 0; i < nr; i++) {
		pages += r->sample[i].pages;
		covered += sample_covers(&r->whole, &r->sample[i]);
	}
	r->covered = pages > 0 ? covered / pages * r->pages : 0;
}

/* All pages have the same chance of being remembered. */
static void remember(struct s3_ranges *r, const struct s3_name *from, const struct s3_name *to,
		     double pages)
{
	uint64_t at = r->nr_samples++;
	struct ranges_sample *p;

	if (at >= SAMPLES) {
		r->random = r->random * 6364136223846793005u + 1442695040888963407u;
		at = (r->random >> 33) % r->nr_samples;
	}
	if (at >= SAMPLES)
		return;
	p = &r->sample[at];
	p->from_len = (uint8_t)u64_min(from->len, S3_KEYS_PLACES);
	p->to_len = (uint8_t)u64_min(to->len, S3_KEYS_PLACES);
	memcpy(p->from, from->bytes, p->from_len);
	memcpy(p->to, to->bytes, p->to_len);
	p->pages = pages;
}

/* Numbers of the whole scale per page, over all pages seen. */
static double page_covers(const struct s3_ranges *r)
{
	return r->pages > 0 && r->covered > r->pages ? r->covered / r->pages : 1;
}

/* ---- How much is left of a range ---- */

/* Where the word (letters and digits) begins in which the first @len bytes of a name end. */
static size_t word_start(const struct s3_name *name, size_t len)
{
	while (len > 0) {
		uint8_t c = name->bytes[len - 1];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
			break;
		len--;
	}
	return len;
}

/*
 * Pages of a range as a function of names, in two parts: near are the names that begin like those
 * of its last pages, up to the word in which these differ; far are all names after them.
 */
struct measure {
	struct s3_scale near;
	uint64_t near_from, far_from; /* numbers */
	double near_rate, far_rate;   /* pages per number */
	double near_pages;            /* until the far ones begin */
	double all, known;            /* pages up to the end, and to the highest name seen */
};

static double pages_to(const struct s3_ranges *r, const struct measure *m,
		       const struct s3_name *name)
{
	uint64_t at = ranges_number(&r->whole, name);
	double far = at > m->far_from ? (double)(at - m->far_from) * m->far_rate : 0;
	double near = 0;

	if (m->near_pages > 0) {
		at = ranges_number(&m->near, name);
		near = at > m->near_from ? (double)(at - m->near_from) * m->near_rate : 0;
	}
	return fmin(near, m->near_pages) + far;
}

static void measure_near(const struct s3_ranges *r, const struct s3_range *range, size_t head,
			 struct measure *m)
{
	const struct s3_name *from = &range->before[1];
	double pages = range->last[0] + range->last[1], covers;

	s3_scale_under(&m->near, &r->keys, range->lo.bytes, head);
	if (shared(&range->start, &range->lo) >= head) { /* within this prefix from its start */
		from = &range->start;
		pages = range->listed;
	}
	covers = distance(&m->near, from, &range->lo);
	m->near_from = ranges_number(&m->near, &range->lo);
	m->near_rate = pages / fmax(covers, 1);
	m->near_pages = (double)(m->near.total - m->near_from) * m->near_rate;
}

static void measure(struct s3_ranges *r, const struct s3_range *range, struct measure *m)
{
	size_t top = word_start(&r->lowest, shared(&r->lowest, &r->highest)), head = 0;
	const struct s3_name *end = range->open ? NULL : &range->hi;
	double covers;

	renew_whole(r);
	covers = page_covers(r);
	if (r->ended && (!end || s3_name_compare(&r->end, end) < 0))
		end = &r->end;
	m->far_rate = (range->listed + PRIOR_PAGES) /
		      (distance(&r->whole, &range->start, &range->lo) + PRIOR_PAGES * covers);
	m->far_from = ranges_number(&r->whole, &range->lo);
	m->near.total = m->near_from = 0; /* if there are any, measure_near() sets them */
	m->near_rate = m->near_pages = 0;
	if (range->listed > 0)
		head = word_start(&range->lo, shared(&range->before[1], &range->lo));
	if (head > top || (range->listed > 0 && covers < NUMBERS_MIN)) {
		measure_near(r, range, head, m);
		m->far_from = s3_scale_at(&r->whole, range->lo.bytes, head) +
			      s3_scale_width(&r->whole, head);
	}
	m->all = end ? pages_to(r, m, end)
		     : m->near_pages +
				 (double)(r->whole.total - u64_min(m->far_from, r->whole.total)) *
					 m->far_rate;
	m->known = m->all;
	if (!r->hashed && (!end || s3_name_compare(&r->highest, end) < 0))
		m->known = fmin(pages_to(r, m, &r->highest), m->all);
}

static bool ranges_continues(const struct measure *m)
{
	return m->known < m->all;
}

static double pages_left(const struct s3_ranges *r, const struct s3_range *range,
			 const struct measure *m)
{
	double unknown = m->all - m->known;

	if (ranges_continues(m) && range->listed == 0) /* a guess: there may be nothing */
		return 0;
	return m->known + fmin(unknown / 2, UNKNOWN_PAGES + r->pages);
}

/* Measure a range and store what is left; a range that had more than expected is assumed to have as
 * much again. */
static void estimate(struct s3_ranges *r, struct s3_range *range, struct measure *m)
{
	double over = range->listed - range->expected, least;

	measure(r, range, m);
	range->left = pages_left(r, range, m);
	least = fmin(over, r->pages);
	if (over > 1 && range->left < least && m->known > 0 && !ranges_continues(m)) {
		m->near_rate *= least / m->known;
		m->far_rate *= least / m->known;
		m->near_pages *= least / m->known;
		m->known = m->all = range->left = least;
	}
}

void s3_ranges_begin(struct s3_ranges *r, struct s3_range *range)
{
	struct measure m;

	pthread_mutex_lock(&r->lock);
	ranges_copy(&range->start, &range->lo);
	ranges_copy(&range->before[0], &range->lo);
	ranges_copy(&range->before[1], &range->lo);
	range->last[0] = range->last[1] = range->listed = range->left = range->expected = 0;
	if (r->pages > 0)
		estimate(r, range, &m);
	range->expected = range->left;
	range->next = r->active;
	r->active = range;
	pthread_mutex_unlock(&r->lock);
}

void s3_ranges_end(struct s3_ranges *r, struct s3_range *range)
{
	pthread_mutex_lock(&r->lock);
	for (struct s3_range **p = &r->active; *p; p = &(*p)->next)
		if (*p == range) {
			*p = range->next;
			break;
		}
	pthread_mutex_unlock(&r->lock);
}

void s3_ranges_learn(struct s3_ranges *r, const uint8_t *name, size_t len)
{
	s3_keys_learn(&r->keys, name, len);
}

/* ---- A page ---- */

/* How many of the names are not after hi. */
static size_t own_names(const struct s3_range *range, const struct s3_listed *page)
{
	size_t low = 0, high = page->nr;

	while (!range->open && low < high) {
		size_t mid = low + (high - low) / 2, len;
		const uint8_t *name = page->name(page->self, mid, &len);

		if (name_compare(name, len, range->hi.bytes, range->hi.len) > 0)
			high = mid;
		else
			low = mid + 1;
	}
	return high;
}

/* The first page: what comes before its first name is not part of it. */
static void note_first(struct s3_ranges *r, struct s3_range *range, const struct s3_listed *page)
{
	size_t len;
	const uint8_t *name = page->name(page->self, 0, &len);

	set(&r->lowest, name, len);
	r->seen = true;
	ranges_copy(&range->start, &r->lowest);
	ranges_copy(&range->before[0], &r->lowest);
	ranges_copy(&range->lo, &r->lowest);
}

/* What the page shows about the bucket: how far its names go, and where they end. */
static void note_ends(struct s3_ranges *r, const struct s3_range *range,
		      const struct s3_listed *page)
{
	const uint8_t *name = range->lo.bytes;
	size_t len = range->lo.len;

	if (page->nr > 0) {
		name = page->name(page->self, page->nr - 1, &len);
		if (name_compare(name, len, r->highest.bytes, r->highest.len) > 0)
			set(&r->highest, name, len);
	}
	if (page->truncated)
		return;
	if (!r->ended || name_compare(name, len, r->end.bytes, r->end.len) < 0)
		set(&r->end, name, len);
	r->ended = true;
}

/*
 * Whether names begin with something that is spread over all its possible values, like a hash: the
 * first page, of @nr names, covers many more values than it has names, starting near the lowest
 * one.
 */
static bool looks_hashed(const struct s3_ranges *r, size_t nr)
{
	size_t head = word_start(&r->lowest, shared(&r->lowest, &r->highest)), end = head;
	struct s3_scale scale;
	double width, first, span;

	while (end < r->lowest.len && word_start(&r->lowest, end + 1) <= head)
		end++;
	s3_scale_under(&scale, &r->keys, r->lowest.bytes, head);
	width = (double)s3_scale_width(&scale, end);
	first = (double)ranges_number(&scale, &r->lowest) / width;
	span = distance(&scale, &r->lowest, &r->highest) / width;
	return span >= HASH_SPAN * (double)nr && first <= HASH_SPAN * span;
}

static void move_on(struct s3_ranges *r, struct s3_range *range, const uint8_t *name, size_t len,
		    double pages)
{
	ranges_copy(&range->before[1], &range->before[0]);
	ranges_copy(&range->before[0], &range->lo);
	set(&range->lo, name, len);
	range->last[1] = range->last[0];
	range->last[0] = pages;
	range->listed += pages;
	r->pages += pages;
	r->covered += distance(&r->whole, &range->before[0], &range->lo);
	remember(r, &range->before[0], &range->lo, pages);
}

size_t s3_ranges_take(struct s3_ranges *r, struct s3_range *range, const struct s3_listed *page,
		      bool *ret_done)
{
	struct measure m;
	size_t nr, len;
	const uint8_t *name;

	pthread_mutex_lock(&r->lock);
	nr = own_names(range, page);
	if (nr > 0 && !r->seen)
		note_first(r, range, page);
	note_ends(r, range, page);
	renew_whole(r);
	r->page_keys = (size_t)u64_max(r->page_keys, page->nr);
	if (r->nr_requests == 0 && page->nr > 0)
		r->hashed = looks_hashed(r, page->nr);
	r->nr_requests++;
	if (nr == 0) {
		r->nr_empty++;
		r->hashed = false;
	} else {
		name = page->name(page->self, nr - 1, &len);
		move_on(r, range, name, len, (double)nr / (double)r->page_keys);
	}
	estimate(r, range, &m);
	*ret_done = nr < page->nr || !page->truncated ||
		    (!range->open && s3_name_compare(&range->lo, &range->hi) >= 0);
	pthread_mutex_unlock(&r->lock);
	return nr;
}

/* ---- Splitting ---- */

static bool is_text(const struct s3_name *name)
{
	return s3_text_len(name->bytes, name->len) == name->len;
}

void s3_cut_name(const struct s3_scale *scale, uint64_t at, const struct s3_name *above,
		 const struct s3_name *below, struct s3_name *cut)
{
	cut->len = s3_scale_name(scale, at, cut->bytes);
	if (!is_text(cut) && is_text(above) && (!below || is_text(below)))
		cut->len = s3_text_mend(cut->bytes, cut->len);
}

/* Write the name that is @pages after lo to @cut. False: it is not between the others. */
static bool make_cut(const struct s3_ranges *r, const struct measure *m, double pages,
		     const struct s3_name *above, const struct s3_name *below, struct s3_name *cut)
{
	const struct s3_scale *scale = &r->whole;
	double at;

	if (pages < m->near_pages) {
		scale = &m->near;
		at = (double)m->near_from + pages / m->near_rate;
	} else {
		at = (double)m->far_from + (pages - m->near_pages) / m->far_rate;
	}
	if (at >= (double)scale->total)
		return false;
	s3_cut_name(scale, (uint64_t)at, above, below, cut);
	return cut->len > 0 && s3_name_compare(above, cut) < 0 &&
	       (!below || s3_name_compare(cut, below) < 0);
}

/* Split into parts of equal numbers of whole pages. */
static size_t cut_evenly(struct s3_ranges *r, const struct s3_range *range, const struct measure *m,
			 size_t nr)
{
	const struct s3_name *above = &range->lo, *below = range->open ? NULL : &range->hi;
	double part = m->known / (double)(nr + 1) + SLACK, before = 0;
	size_t made = 0;

	for (size_t i = 1; i <= nr; i++) {
		double whole = fmax(round(part * (double)i), before + 1);
		double pages = whole - SLACK * (double)i;

		if (pages >= m->known)
			break;
		before = whole;
		if (!make_cut(r, m, pages, above, below, &r->cut[made]))
			continue;
		above = &r->cut[made++];
	}
	return made;
}

/* Split into growing parts, after the highest name seen. */
static size_t cut_growing(struct s3_ranges *r, const struct s3_range *range,
			  const struct measure *m, size_t nr)
{
	const struct s3_name *above = &range->lo, *below = range->open ? NULL : &range->hi;
	double seen = fmax(distance(&r->whole, &r->lowest, &r->highest) * m->far_rate, 1);
	double ratio = (seen + m->all - m->known) / seen, before = 0;
	size_t made = 0;

	nr = (size_t)fmin((double)nr, ceil(DOUBLING_CUTS * log2(ratio)));
	for (size_t i = 1; i <= nr; i++) {
		double pages = m->known + seen * (pow(ratio, (double)i / (double)(nr + 1)) - 1);

		pages = fmax(pages, before + LEAST_PAGES / 2);
		if (pages >= m->all)
			break;
		before = pages;
		if (!make_cut(r, m, pages, above, below, &r->cut[made]))
			continue;
		above = &r->cut[made++];
	}
	return made;
}

static size_t make_cuts(struct s3_ranges *r, const struct s3_range *range, const struct measure *m,
			size_t nr)
{
	nr = (size_t)u64_min(nr, CUTS_MAX);
	if (!ranges_continues(m))
		return cut_evenly(r, range, m, nr);
	if (r->nr_empty > EMPTY_FREE + r->pages / EMPTY_ONE)
		return 0;
	return cut_growing(r, range, m, (size_t)u64_min(nr, UNKNOWN_CUTS));
}

static double least_pages(const struct s3_ranges *r)
{
	double waste = fmax(r->nr_requests - r->pages - WASTE_FREE, 0);

	return LEAST_PAGES + WASTE_PAGES * waste / (r->pages + UNKNOWN_PAGES);
}

/* The range with the most pages left, and the average over ranges and idle threads. */
static struct s3_range *ranges_largest(const struct s3_ranges *r, size_t nr_idle, double *ret_share)
{
	struct s3_range *most = NULL;
	double sum = 0;
	size_t nr = nr_idle;

	for (struct s3_range *a = r->active; a; a = a->next, nr++) {
		sum += a->left;
		if (!most || a->left > most->left)
			most = a;
	}
	*ret_share = nr > 0 ? sum / (double)nr : 0;
	return most;
}

/* Hand the parts over, the last one first, so that nothing is ever lost. */
static int give_parts(struct s3_ranges *r, struct s3_range *range, size_t nr,
		      const struct s3_takers *takers, struct shoal_err *err)
{
	const struct s3_name *hi = range->open ? NULL : &range->hi;
	int rc = 0;

	for (size_t i = nr; i-- > 0 && rc == 0;) {
		rc = takers->give(takers->self, &r->cut[i], hi, err);
		hi = &r->cut[i];
	}
	if (rc == 0) {
		ranges_copy(&range->hi, &r->cut[0]);
		range->open = false;
	}
	return rc;
}

int s3_ranges_share(struct s3_ranges *r, const struct s3_takers *takers, struct shoal_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	for (size_t idle = takers->idle(takers->self), nr; idle > 0 && rc == 0; idle -= nr) {
		struct measure m;
		double share, parts;
		struct s3_range *range = ranges_largest(r, idle, &share);

		if (!range || range->left < least_pages(r))
			break;
		estimate(r, range, &m);
		parts = round(range->left / fmax(share, least_pages(r) / 2)) - 1;
		nr = (size_t)fmin(fmax(parts, 1), (double)idle);
		nr = make_cuts(r, range, &m, nr);
		if (nr == 0) {
			range->left = 0; /* until its next page */
			continue;
		}
		rc = give_parts(r, range, nr, takers, err);
		range->left /= (double)(nr + 1);
		range->expected = range->listed + range->left;
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

void s3_ranges_rest(struct s3_ranges *r, const struct s3_range *range,
		    void (*say)(void *self, const struct s3_name *lo, const struct s3_name *hi),
		    void *self)
{
	pthread_mutex_lock(&r->lock);
	say(self, &range->lo, range->open ? NULL : &range->hi);
	pthread_mutex_unlock(&r->lock);
}
