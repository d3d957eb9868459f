/*
 * ranges.h - who lists which keys of a bucket, and what to give to those who have nothing to do.
 *
 * A range is (lo, hi]: names behind lo up to hi. Whoever lists one shows each page, and is told how
 * much of it is its own. Whenever others are idle, anyone may have the largest ranges cut for them,
 * also those that somebody else is listing: the end of such a range comes nearer, which its lister
 * sees when its next page has come.
 *
 * How many pages a range has left is estimated from what pages took so far on the scale of
 * keys.h: its own in the directory (or whatever names have in common) that it is in, those of
 * all for what lies behind that. Every range ends with a page that is only in part its own, so
 * parts are given whole pages, as far as they can be foreseen.
 *
 * What lies behind the highest name seen is anybody's guess. Where names begin with something that
 * looks like a hash it is taken to go on as it began; else it is cut in steps that grow, so that
 * the end is found in a few requests, whether it is near or far.
 */
#ifndef SHOAL_STORE_S3_RANGES_H
#define SHOAL_STORE_S3_RANGES_H

#include "base/err.h"
#include "store/s3/keys.h"

struct s3_ranges;

struct s3_name {
	size_t len;
	uint8_t bytes[SHOAL_NAME_MAX + 1];
};

/* A range that is being listed, by one thread. All of it is under the lock of s3_ranges. */
struct s3_range {
	struct s3_name lo, hi; /* lo moves on with each page, hi moves down with each split */
	bool open;             /* there is no hi */
	/* Of ranges.c: */
	struct s3_name start;     /* where lo was at first */
	struct s3_name before[2]; /* where lo was one page ago, and two */
	double last[2];           /* pages that these were */
	double listed;            /* pages in all */
	double left, expected;    /* estimated pages left, and in all when it was last split */
	struct s3_range *next;
};

/* What the server sent: rising names. */
struct s3_listed {
	size_t nr;
	bool truncated; /* there are more after them */
	const uint8_t *(*name)(const void *self, size_t i, size_t *ret_len);
	const void *self;
};

/* The receiver of ranges. */
struct s3_takers {
	/* How many threads are idle. */
	size_t (*idle)(void *self);
	/* Take the names after @lo up to @hi (NULL: the end). 0, or an error. */
	int (*give)(void *self, const struct s3_name *lo, const struct s3_name *hi,
		    struct shoal_err *err);
	void *self;
};

struct s3_ranges *s3_ranges_new(void); /* NULL without memory */
struct s3_ranges *s3_ranges_free(struct s3_ranges *r);

/* A thread begins a range, which it must end before the range is freed. */
void s3_ranges_begin(struct s3_ranges *r, struct s3_range *range);
void s3_ranges_end(struct s3_ranges *r, struct s3_range *range);

/* Learn from a name that was found. Not all need be shown. */
void s3_ranges_learn(struct s3_ranges *r, const uint8_t *name, size_t len);

/* A page came, requested after lo. Returns how many of its names belong to the range: the caller
 * takes these, and lo becomes the last of them. Also whether the range is complete. */
size_t s3_ranges_take(struct s3_ranges *r, struct s3_range *range, const struct s3_listed *page,
		      bool *ret_done);

/* Split ranges for idle threads, beginning with the largest, if it is worthwhile. */
int s3_ranges_share(struct s3_ranges *r, const struct s3_takers *takers,
		    struct shoal_err *err) MUST_USE;

/* Report what is left of a range while it cannot be split: a part that was split off has been
 * handed over by then, or is included. @hi is NULL if there is none. */
void s3_ranges_rest(struct s3_ranges *r, const struct s3_range *range,
		    void (*say)(void *self, const struct s3_name *lo, const struct s3_name *hi),
		    void *self);

/*
 * The name of number @at, between @above and @below (NULL: no end) or so. It is UTF-8 where these
 * are: some servers read names as text, and would look for another than they were sent.
 */
void s3_cut_name(const struct s3_scale *scale, uint64_t at, const struct s3_name *above,
		 const struct s3_name *below, struct s3_name *cut);

#endif
