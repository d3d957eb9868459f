/*
 * s3_ranges.h - who lists which keys of a bucket, and what to give to those who have nothing to do.
 *
 * A range is (lo, hi]: names behind lo up to hi. Whoever lists one says after each page how far it
 * is; while others are idle it is told where to cut what it has left, so that all are busy. The
 * more remains of a range, the more is cut off: an idle lister is to get its part of the busiest.
 *
 * What lies behind the highest name seen is anybody's guess, so it is cut in steps that grow: the
 * end is found in a few requests, whether it is near or far. What lies in front of it is cut evenly
 * on the scale of s3_keys.h. Requests that find nothing are counted, and nobody guesses any more
 * when they are many.
 */
#ifndef SHOAL_STORE_S3_RANGES_H
#define SHOAL_STORE_S3_RANGES_H

#include "base/err.h"
#include "store/s3_keys.h"

struct s3_ranges;

#define S3_CUTS_MAX 64u /* at one time */

struct s3_name {
	size_t len;
	uint8_t bytes[SHOAL_NAME_MAX + 1];
};

/* A range that is being listed, by one thread. */
struct s3_range {
	struct s3_name lo, hi; /* lo moves on with each page */
	bool open;             /* there is no hi */
	/* Of s3_ranges.c: */
	struct s3_name before[2]; /* where lo was one page ago, and two */
	uint64_t nr_pages;
	double left; /* pages to come, at a guess. Under the lock */
	struct s3_range *next;
};

struct s3_ranges *s3_ranges_new(void); /* NULL without memory */
struct s3_ranges *s3_ranges_free(struct s3_ranges *r);

/* A thread begins with a range, which it must end with before the range goes away. */
void s3_ranges_begin(struct s3_ranges *r, struct s3_range *range);
void s3_ranges_end(struct s3_ranges *r, struct s3_range *range);

/* A page was listed: @nr names in the range, the last of them now in lo. */
void s3_ranges_page(struct s3_ranges *r, struct s3_range *range, size_t nr);

/* Look at a name that was found, to know what names look like. Not all need be shown. */
void s3_ranges_learn(struct s3_ranges *r, const uint8_t *name, size_t len);

/*
 * Where to cut what is left of @range for @nr_idle others: that many names in @cuts, rising, all
 * between lo and hi. 0: it is too small, or another one's turn.
 */
size_t s3_ranges_cut(struct s3_ranges *r, struct s3_range *range, size_t nr_idle,
		     struct s3_name *cuts);

/*
 * The name of number @at, between @above and @below (NULL: no end) or so. It is UTF-8 where these
 * are: some servers read names as text, and would look for another than they were sent.
 */
void s3_cut_name(const struct s3_scale *scale, uint64_t at, const struct s3_name *above,
		 const struct s3_name *below, struct s3_name *cut);

#endif
