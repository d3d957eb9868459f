#include "store/s3_ranges.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"

/*
 * A part that is given away should have as many pages, as the last of them is half for nothing.
 * More where that, and what found nothing, has come to more than one of so many pages.
 */
#define PART_PAGES     3.0
#define PART_PAGES_BIG 12.0
#define WASTE_FREE     16u
#define WASTE_ONE      12u

/*
 * Behind the highest name there is as much again as was seen, but this much in the beginning. To
 * find its end, no more cuts are made at a time.
 */
#define UNKNOWN_PAGES 64.0
#define UNKNOWN_CUTS  16u

/* Requests that find nothing may be as many, and one of so many. */
#define EMPTY_FREE 48u
#define EMPTY_ONE  16u

struct s3_ranges {
	struct s3_keys keys;  /* atomic */
	pthread_mutex_t lock; /* of the rest, and of what ranges say is left */
	struct s3_range *active;
	struct s3_name highest; /* that was seen */
	uint64_t nr_pages, nr_empty, nr_begun;
};

struct s3_ranges *s3_ranges_new(void)
{
	struct s3_ranges *r = calloc(1, sizeof(*r));

	if (r)
		pthread_mutex_init(&r->lock, NULL);
	return r;
}

struct s3_ranges *s3_ranges_free(struct s3_ranges *r)
{
	if (r)
		pthread_mutex_destroy(&r->lock);
	free(r);
	return NULL;
}

static int compare(const struct s3_name *a, const struct s3_name *b)
{
	return shoal_name_compare(a->bytes, a->len, b->bytes, b->len);
}

static void copy(struct s3_name *to, const struct s3_name *from)
{
	to->len = from->len;
	memcpy(to->bytes, from->bytes, from->len);
}

void s3_ranges_begin(struct s3_ranges *r, struct s3_range *range)
{
	copy(&range->before[0], &range->lo);
	copy(&range->before[1], &range->lo);
	range->nr_pages = 0;
	range->left = 0; /* nothing is known of it: nobody need wait for it to be cut */
	pthread_mutex_lock(&r->lock);
	r->nr_begun++;
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

/* ---- How much is left ---- */

/* What is left of a range, on a scale. */
struct rest {
	struct s3_scale scale;
	uint64_t from, to; /* numbers */
	double page;       /* numbers that a page took, of the last two */
	bool known;        /* names were seen behind it */
};

/* With the lock held. */
static void measure(const struct s3_ranges *r, const struct s3_range *range, struct rest *rest)
{
	const struct s3_name *end = range->open ? NULL : &range->hi;
	uint64_t start;

	rest->known = compare(&r->highest, &range->lo) > 0;
	if (rest->known && (!end || compare(&r->highest, end) < 0))
		end = &r->highest;
	s3_scale_init(&rest->scale, &r->keys, range->lo.bytes, range->lo.len,
		      end ? end->bytes : NULL, end ? end->len : 0);
	rest->from = s3_scale_at(&rest->scale, range->lo.bytes, range->lo.len);
	rest->to = end ? s3_scale_at(&rest->scale, end->bytes, end->len) : rest->scale.total;
	start = s3_scale_at(&rest->scale, range->before[1].bytes, range->before[1].len);
	rest->page = (double)(rest->from - shoal_min(start, rest->from)) /
		     (double)shoal_max(1, shoal_min(range->nr_pages, 2));
	if (rest->page < 1)
		rest->page = 1;
}

static double pages_left(const struct s3_ranges *r, const struct rest *rest)
{
	double left = rest->to > rest->from ? (double)(rest->to - rest->from) / rest->page : 0;

	return rest->known ? left : fmin(left, UNKNOWN_PAGES + (double)r->nr_pages);
}

void s3_ranges_page(struct s3_ranges *r, struct s3_range *range, size_t nr)
{
	struct rest rest;

	range->nr_pages++;
	pthread_mutex_lock(&r->lock);
	r->nr_pages++;
	r->nr_empty += nr == 0;
	if (compare(&range->lo, &r->highest) > 0)
		copy(&r->highest, &range->lo);
	measure(r, range, &rest);
	range->left = pages_left(r, &rest);
	pthread_mutex_unlock(&r->lock);
	copy(&range->before[1], &range->before[0]);
	copy(&range->before[0], &range->lo);
}

/* ---- Cutting ---- */

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

/* Put the name of a number into @cut. False when it does not lie between the others. */
static bool make_cut(const struct s3_scale *scale, double at, const struct s3_name *above,
		     const struct s3_name *below, struct s3_name *cut)
{
	s3_cut_name(scale, (uint64_t)at, above, below, cut);
	return cut->len > 0 && compare(above, cut) < 0 && (!below || compare(cut, below) < 0);
}

static size_t make_cuts(const struct s3_range *range, const struct rest *rest, size_t nr,
			struct s3_name *cuts)
{
	const struct s3_name *above = &range->lo, *below = range->open ? NULL : &range->hi;
	double all = (double)(rest->to - rest->from);
	double first = fmin(PART_PAGES * rest->page, all);
	size_t made = 0;

	for (size_t i = 1; i <= nr; i++) {
		double part = (double)i / (double)(nr + 1);
		double at = rest->known ? all * part : first * pow(all / first, part);

		if (!make_cut(&rest->scale, (double)rest->from + at, above, below, &cuts[made]))
			continue;
		above = &cuts[made++];
	}
	return made;
}

/* With the lock held: how many parts this range should give away. */
static size_t parts_to_give(const struct s3_ranges *r, const struct s3_range *range,
			    const struct rest *rest, size_t nr_idle)
{
	bool waste = r->nr_empty + r->nr_begun / 2 > WASTE_FREE + r->nr_pages / WASTE_ONE;
	double least = waste ? PART_PAGES_BIG : PART_PAGES;
	double sum = 0, most = 0, share, parts;
	size_t nr_active = 0;

	for (const struct s3_range *a = r->active; a; a = a->next) {
		sum += a->left;
		most = fmax(most, a->left);
		nr_active++;
	}
	if (range->left < most / 2 || range->left < 2 * least)
		return 0;
	if (!rest->known && r->nr_empty > EMPTY_FREE + r->nr_pages / EMPTY_ONE)
		return 0;
	share = sum / (double)(nr_active + nr_idle);
	parts = range->left / fmax(share, least) - 1;
	parts = fmin(fmax(parts, 1), (double)nr_idle);
	return (size_t)fmin(parts, rest->known ? S3_CUTS_MAX : UNKNOWN_CUTS);
}

size_t s3_ranges_cut(struct s3_ranges *r, struct s3_range *range, size_t nr_idle,
		     struct s3_name *cuts)
{
	struct rest rest;
	size_t nr;

	pthread_mutex_lock(&r->lock);
	measure(r, range, &rest);
	nr = rest.to > rest.from ? parts_to_give(r, range, &rest, nr_idle) : 0;
	if (nr > 0)
		nr = make_cuts(range, &rest, nr, cuts);
	if (nr > 0)
		range->left /= (double)(nr + 1);
	pthread_mutex_unlock(&r->lock);
	return nr;
}
