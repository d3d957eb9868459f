/*
 * series.h - what a rank did, second by second and step by step, in a file of bounded size.
 *
 * docs/format/series.md specifies the file. A record covers an interval; every SERIES_LEVEL records
 * the interval doubles, so that a file has a few thousand records at any length of run. Records are
 * only appended, each with a checksum: after a crash all but the last second can be read.
 */
#ifndef SHOAL_RUN_SERIES_H
#define SHOAL_RUN_SERIES_H

#include "run/metrics.h"
#include "shoal.h"

#define SERIES_VERSION  1u
#define SERIES_HEAD     64u
#define SERIES_LEVEL    1024u /* records of one interval */
#define SERIES_PLACES   64u   /* of a histogram of latencies: see series_place() */
#define SERIES_NAME_MAX 255u
#define SERIES_BYTES    (24u + 8u * 24u + 4u * SERIES_PLACES + 256u) /* the longest record */

struct series_head {
	uint64_t run;     /* identifies it, as in the step log */
	uint64_t started; /* ns since 1970: times of records count from here */
	uint64_t interval_ns;
	uint32_t rank, nr_ranks, nr_accelerators;
};

enum series_kind { SERIES_SECOND = 1, SERIES_STEPS = 2, SERIES_LISTED = 3 };

/* A record. Fields that its kind does not have are 0. All times are in ns. */
struct series_record {
	enum series_kind kind;
	uint32_t epoch; /* from 1 */
	bool eval;
	uint64_t start, duration;
	uint64_t first_step, nr_steps; /* of the epoch; those that ended in the interval */
	uint64_t samples, bytes;
	/* Over the process' accelerators: */
	uint64_t load, load_max; /* waiting for batches; the longest such wait of a step */
	uint64_t compute;
	/* Of seconds only: */
	uint64_t errors, latency, cpu, memory; /* latency: sum; memory: resident bytes */
	uint64_t requests, retries, throttled;
	uint64_t slow, slow_start, slow_sample; /* the slowest sample, and its file */
	uint32_t count[SERIES_PLACES];          /* of latencies */
	char name[SERIES_NAME_MAX + 1];
	uint64_t names; /* of listings only: found in this interval */
};

/* Two places per power of two of a microsecond: 1 us or less, up to 1.4, 2, 2.8, ... */
unsigned series_place(uint64_t ns);

/* ---- Writing ---- */

struct series;

/* -ENOMEM or an error of the file. The file at @path is replaced; NULL: it is only watched. */
int series_create(const char *path, const struct series_head *head, struct series **ret_s,
		  struct shoal_err *err) MUST_USE;

/*
 * Append to the series of run @run after its last whole record. -ENOENT: there is none; -ENODATA:
 * it was cut off before its first record; -ESTALE: it is of another run; -EBADMSG: not a series.
 */
int series_resume(const char *path, uint64_t run, struct series **ret_s,
		  struct shoal_err *err) MUST_USE;

/*
 * Write what is left and close. NULL is fine. -errno if something could not be written since the
 * series was opened; nothing was written after that error.
 */
int series_close(struct series *s, struct shoal_err *err) MUST_USE;

/*
 * From here on the figures of @l count, from 0 on, for @epoch. @l and @cat are lent until the next
 * call, or series_pause(). @now is a time of clock_now(), as everywhere here.
 */
void series_epoch(struct series *s, uint64_t now, uint32_t epoch, bool eval, uint64_t first_step,
		  const struct shoal_loader *l, const struct shoal_catalog *cat);

/* The loader is about to be closed, or to begin another epoch. */
void series_pause(struct series *s, uint64_t now);

/* A step ended at @now: its times, over the process' accelerators. */
struct series_step {
	uint64_t now, samples, bytes, load, load_max, compute, errors;
};
void series_step(struct series *s, const struct series_step *step);

/* A sample took @took ns, from @started on. */
void series_sample(struct series *s, uint64_t started, uint64_t took, uint64_t id);

/* A listing has found @names and @bytes until @now. Call it as often as convenient. */
void series_listed(struct series *s, uint64_t now, uint64_t names, uint64_t bytes);

/* A job without steps has done @samples and @bytes until @now: totals. Call it as often as
 * convenient, between series_epoch() and series_pause(). */
void series_count(struct series *s, uint64_t now, uint64_t samples, uint64_t bytes);

/*
 * Call @each about once per @interval, in ns, however long the intervals of the file have become,
 * with what was done since the last call: a record of seconds, or of a listing. It must be quick.
 * NULL as @s is fine.
 */
typedef void series_watch_fn(void *self, const struct series_record *r);
void series_watch(struct series *s, uint64_t interval, series_watch_fn *each, void *self);

/* A record as bytes; and back: 1, or 0 if its kind is not known or has another form. */
size_t series_pack(const struct series_record *r, uint8_t to[SERIES_BYTES]);
int series_unpack(const uint8_t *from, size_t len, struct series_record *ret_r);

/* ---- Reading ---- */

/*
 * Call @each for the records of the image @data of a file, until it returns a value other than 0.
 * *@ret_end is where the last whole record ends: less than @len if the rest is incomplete or
 * damaged. -EBADMSG: not a series; -EPROTONOSUPPORT: of a newer version.
 */
typedef int series_each_fn(void *self, const struct series_record *r);
int series_read(const uint8_t *data, size_t len, struct series_head *ret_head, series_each_fn *each,
		void *self, size_t *ret_end, struct shoal_err *err) MUST_USE;

#endif
