/*
 * ranges.h - which thread lists which keys of a bucket, and what idle threads are given.
 *
 * A range is (lo, hi]: the names after lo up to hi. The thread that lists a range reports each page
 * and gets back how many of its names belong to the range. Whenever threads are idle, any thread
 * may split the largest ranges for them, even ranges that another thread is listing: hi of such a
 * range moves down, which its lister sees when it reports its next page.
 *
 * The number of pages left in a range is estimated from how much of the scale of keys.h pages have
 * covered so far: the range's own pages for the directory (or common prefix) that it is in, those
 * of all ranges for what follows. Every range ends with a page that belongs to it only in part, so
 * parts are cut at whole pages as far as these can be estimated.
 *
 * How much follows the highest name seen is unknown. If names begin with something that looks like
 * a hash, it is assumed to continue evenly; otherwise it is split in growing steps, so that the end
 * is found in a few requests whether it is near or far.
 */
#ifndef SHOAL_STORE_S3_RANGES_H
#define SHOAL_STORE_S3_RANGES_H

#include "base/err.h"
#include "base/name.h"
#include "store/s3/keys.h"

struct s3_ranges;

struct s3_name {
	size_t len;
	uint8_t bytes[SHOAL_NAME_MAX + 1];
};

static inline int s3_name_compare(const struct s3_name *a, const struct s3_name *b)
{
	return name_compare(a->bytes, a->len, b->bytes, b->len);
}

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
 * The name of number @at, roughly between @above and @below (NULL: no end). It is valid UTF-8 if
 * these are: some servers convert names to text, and would continue from another name.
 */
void s3_cut_name(const struct s3_scale *scale, uint64_t at, const struct s3_name *above,
		 const struct s3_name *below, struct s3_name *cut);

#endif
