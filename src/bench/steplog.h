/*
 * steplog.h - the times of every step of a process' accelerators, in a file.
 *
 * Nothing of it is kept in memory, however many steps there are: figures and per-rank results are
 * computed by reading it again. It is written step by step, so that it is also what a run that was
 * killed is resumed from. What a kill left half written at its end does not count.
 */
#ifndef SHOAL_BENCH_STEPLOG_H
#define SHOAL_BENCH_STEPLOG_H

#include "base/map.h"
#include "bench/metrics.h"

/* A stretch of steps: see metrics.h. */
struct bench_log_block {
	uint32_t epoch; /* from 1 */
	bool eval;
	uint64_t first_step; /* steps of the epoch that were done before, in other blocks */
	uint64_t steps_due;  /* of the epoch */
	uint64_t started;    /* ns since 1970 */
	/* When it is read: */
	uint64_t nr_steps;
	uint64_t wall;  /* ns; of a block that has no end, to the end of its last step */
	uint64_t ended; /* ns since 1970 */
	uint64_t off;   /* where in the file it begins, and its steps do, and the next begins */
	uint64_t steps_off, next_off;
	bool whole; /* it has an end */
};

struct bench_log {
	int fd;
	uint64_t end;   /* of the file */
	uint64_t block; /* where the last block begins */
	uint32_t nr_accelerators;
	uint8_t *step; /* room for one step of all accelerators */
};

#define BENCH_LOG_CLOSED ((struct bench_log){ .fd = -1 })

/* A new one, or an old one to go on with: -ESTALE when that is of another run. */
int bench_log_create(const char *path, uint64_t run, uint32_t nr_accelerators,
		     struct bench_log *ret_log, struct shoal_err *err) SHOAL_MUST_USE;
int bench_log_open(const char *path, uint64_t run, uint32_t nr_accelerators,
		   struct bench_log *ret_log, struct shoal_err *err) SHOAL_MUST_USE;
void bench_log_close(struct bench_log *log); /* idempotent */

int bench_log_start(struct bench_log *log, const struct bench_log_block *block,
		    struct shoal_err *err) SHOAL_MUST_USE;
/* One step of each accelerator. */
int bench_log_step(struct bench_log *log, const struct bench_step *steps,
		   struct shoal_err *err) SHOAL_MUST_USE;
int bench_log_end(struct bench_log *log, uint64_t nr_steps, uint64_t wall, uint64_t ended,
		  struct shoal_err *err) SHOAL_MUST_USE;

/* Keep @nr_steps of the block's steps, which is the last one, and none after; with 0 not it either.
 */
int bench_log_cut(struct bench_log *log, const struct bench_log_block *block, uint64_t nr_steps,
		  struct shoal_err *err) SHOAL_MUST_USE;

/*
 * The block after @block, or the first for one that is all zero: 1, or 0 when there is none, or an
 * error.
 */
int bench_log_next(const struct bench_log *log, struct bench_log_block *block,
		   struct shoal_err *err) SHOAL_MUST_USE;

/*
 * What of @window holds for a block: steps are excluded at the end of the epoch, and not where a
 * run was stopped or killed.
 */
struct bench_window bench_log_window(const struct bench_log_block *block,
				     struct bench_window window);

typedef int bench_log_each_fn(void *self, uint32_t accelerator, const struct bench_step *step);

/*
 * Calls @each for the steps of the block, step by step, those of all accelerators in their order.
 * Not 0 ends it and is returned.
 */
int bench_log_read(const struct bench_log *log, const struct bench_log_block *block,
		   bench_log_each_fn *each, void *self, struct shoal_err *err) SHOAL_MUST_USE;

/*
 * The steps of one accelerator lie far apart, between those of the others: for thousands of them
 * the record is mapped, so that each is picked out without a call of the kernel. The log must not
 * be written meanwhile.
 */
struct bench_log_view {
	const struct bench_log *log; /* lent */
	struct shoal_map map;
};

int bench_log_view_open(const struct bench_log *log, struct bench_log_view *ret_view,
			struct shoal_err *err) SHOAL_MUST_USE;
void bench_log_view_close(struct bench_log_view *view); /* idempotent */

int bench_log_view_read(const struct bench_log_view *view, const struct bench_log_block *block,
			uint32_t accelerator, bench_log_each_fn *each, void *self,
			struct shoal_err *err) SHOAL_MUST_USE;

#endif
