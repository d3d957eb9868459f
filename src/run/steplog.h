/*
 * steplog.h - the step log: the times of every step of a process' accelerators, in a file.
 *
 * None of it is kept in memory, however many steps there are: figures and per-rank results are
 * computed by reading it again. It is written step by step, so a run that was killed is resumed
 * from it. An incomplete item at its end, left by a kill, does not count.
 */
#ifndef SHOAL_RUN_STEPLOG_H
#define SHOAL_RUN_STEPLOG_H

#include "base/map.h"
#include "run/metrics.h"

/* An uninterrupted sequence of steps: see metrics.h. */
struct step_log_block {
	uint32_t epoch; /* from 1 */
	bool eval;
	uint64_t first_step; /* steps of the epoch done before, in other blocks */
	uint64_t steps_due;  /* of the epoch */
	uint64_t started;    /* ns since 1970 */
	/* Set when reading: */
	uint64_t nr_steps;
	uint64_t wall;  /* ns; for a block without an end, up to the end of its last step */
	uint64_t ended; /* ns since 1970 */
	uint64_t off;   /* offsets of the block, of its steps, and of the next block */
	uint64_t steps_off, next_off;
	bool whole; /* it has an end item */
};

struct step_log {
	int fd;
	uint64_t end;   /* of the file */
	uint64_t block; /* offset of the last block */
	uint32_t nr_accelerators;
	uint8_t *step; /* room for one step of all accelerators */
};

#define STEP_LOG_CLOSED ((struct step_log){ .fd = -1 })

/* Create a log, or open an existing one to continue it: -ESTALE if it belongs to another run. */
int step_log_create(const char *path, uint64_t run, uint32_t nr_accelerators,
		    struct step_log *ret_log, struct shoal_err *err) MUST_USE;
int step_log_open(const char *path, uint64_t run, uint32_t nr_accelerators,
		  struct step_log *ret_log, struct shoal_err *err) MUST_USE;
void step_log_close(struct step_log *log); /* idempotent */

int step_log_start(struct step_log *log, const struct step_log_block *block,
		   struct shoal_err *err) MUST_USE;
/* Append one step of each accelerator. */
int step_log_step(struct step_log *log, const struct run_step *steps,
		  struct shoal_err *err) MUST_USE;
int step_log_end(struct step_log *log, uint64_t nr_steps, uint64_t wall, uint64_t ended,
		 struct shoal_err *err) MUST_USE;

/*
 * Keep @nr_steps steps of @block, which is the last one, and nothing after; with 0 drop the block
 * too.
 */
int step_log_cut(struct step_log *log, const struct step_log_block *block, uint64_t nr_steps,
		 struct shoal_err *err) MUST_USE;

/*
 * The block after @block, or the first if @block is all zero. Returns 1, 0 if there is none, or an
 * error.
 */
int step_log_next(const struct step_log *log, struct step_log_block *block,
		  struct shoal_err *err) MUST_USE;

/*
 * The part of @window that applies to a block: steps at its end are excluded only if it ends the
 * epoch, not if the run was stopped or killed.
 */
struct step_window step_log_window(const struct step_log_block *block, struct step_window window);

typedef int step_log_each_fn(void *self, uint32_t accelerator, const struct run_step *step);

/*
 * Call @each for the steps of the block, step by step, for all accelerators in order. A return
 * value other than 0 ends the loop and is returned.
 */
int step_log_read(const struct step_log *log, const struct step_log_block *block,
		  step_log_each_fn *each, void *self, struct shoal_err *err) MUST_USE;

/*
 * Access to the steps of one accelerator, which are interleaved with those of the others. For
 * thousands of accelerators the log is mapped, so that no system calls are needed. The log must not
 * be written meanwhile.
 */
struct step_log_view {
	const struct step_log *log; /* lent */
	struct map map;
};

int step_log_view_open(const struct step_log *log, struct step_log_view *ret_view,
		       struct shoal_err *err) MUST_USE;
void step_log_view_close(struct step_log_view *view); /* idempotent */

int step_log_view_read(const struct step_log_view *view, const struct step_log_block *block,
		       uint32_t accelerator, step_log_each_fn *each, void *self,
		       struct shoal_err *err) MUST_USE;

#endif
