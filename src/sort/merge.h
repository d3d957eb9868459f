/*
 * merge.h - merge sorted sources, runs in a file or packs in memory, into one sequence.
 *
 * Runs are merged in as many passes as the memory needs.
 */
#ifndef SHOAL_SORT_MERGE_H
#define SHOAL_SORT_MERGE_H

#include "sort/run.h"
#include "sort/sort.h"

/* ---- The tournament: one pass ---- */

/* A source and the name that it offers now. */
struct tournament_source {
	const uint8_t *name; /* lent */
	size_t len;
	bool done;
	const struct pack *pack; /* lent; the rest after the offered name: */
	const uint8_t *at;       /* or: */
	struct sort_run_reader *run;
};

struct tournament {
	struct tournament_source *source;
	uint64_t *key; /* of the offered names, after the common prefix of all names */
	struct sort_run_reader *reader; /* one per source, if they are runs */
	uint32_t *tree; /* tree[0] is the winner, the others are losers on the way up */
	uint32_t rival; /* the only source that can beat the winner's next name, if known */
	uint32_t nr;
	uint32_t shared;                /* length of the common prefix of all names */
	const struct sort_range *range; /* what is taken of runs; NULL: everything. Lent */
	uint64_t end_key;               /* of its end */
	/* To be set before it is played; 0 otherwise: */
	unsigned order_len; /* see sorter_options */
	bool strip_order;
};

/* For the names of @range (NULL: all) in @nr runs in the file @fd, read through @memory. The pieces
 * of a run are one source. It must be released even after a failure. */
int tournament_of_runs(struct tournament *t, int fd, const struct sort_run *runs, uint32_t nr,
		       const struct sort_range *range, uint8_t *memory, size_t memory_len) MUST_USE;

/* For @nr packs, some of which may be empty. */
int tournament_of_packs(struct tournament *t, const struct pack *packs, uint32_t nr) MUST_USE;

/*
 * Hand everything to @take in order. Names of runs are checked, because they come from a file:
 * they rise and have no NUL. Of equal names the one from the last source is taken, and within a
 * source the last one; the others are counted in *@repeated.
 */
int tournament_play(struct tournament *t, const int *stop, uint64_t *repeated, sort_entry_fn *take,
		    void *self, struct shoal_err *err) MUST_USE;

void tournament_release(struct tournament *t);

/* ---- All passes ---- */

/* The least that is read of a run at a time: enough to make a disk seek worthwhile. */
#define SORT_READ_MIN (64u << 10)

struct sort_merge_job {
	int fd;                 /* of the spill file */
	struct sort_runs *runs; /* in input order; used up */
	uint64_t keep;   /* the file before this offset is kept: a checkpoint may restart there */
	struct out *out; /* the end of the spill file, where merged runs are written */
	uint8_t *memory; /* for the buffers */
	size_t memory_len;
	const int *stop;    /* may be NULL */
	uint64_t *repeated; /* counts entries dropped because a later one has the name */
	sort_entry_fn *take;
	void *self;
	const struct sort_stage *stage; /* may be NULL */
	unsigned order_len;             /* see sorter_options; the last pass takes it off: */
	bool strip_order;
};

int sort_merge(struct sort_merge_job *job, struct shoal_err *err) MUST_USE;

/* Merge runs in as many passes as are needed until one pass can merge the rest. */
int sort_merge_reduce(struct sort_merge_job *job, struct shoal_err *err) MUST_USE;

/* ---- The last pass by ranges of names: ranges.c ---- */

/* How many ranges the limits and the job's memory allow: of its runs, or of @packs, which need no
 * buffers. At least 1. */
unsigned sort_merge_ranges_of(const struct sort_merge_job *job, const struct pack *packs,
			      uint32_t nr_packs, const struct sort_limits *limits) MUST_USE;

/* Merge @nr ranges at the same time, each on a thread of its own; the first on the caller's.
 * @range_memory of the job's memory per range is given back for the parts to use. The job's take
 * and stage are not used. */
int sort_merge_ranges(struct sort_merge_job *job, const struct pack *packs, uint32_t nr_packs,
		      const struct sort_part *parts, unsigned nr, size_t range_memory,
		      struct shoal_err *err) MUST_USE;

/* Hand the entries of packs to the job's consumer, without a file: the members about files are
 * ignored, and the job may use all the memory. */
int sort_merge_packs(struct sort_merge_job *job, const struct pack *packs, uint32_t nr,
		     struct shoal_err *err) MUST_USE;

/* Where a run goes that is made of packs. */
struct sort_spill_job {
	struct out *out; /* the end of the spill file */
	uint64_t *repeated;
	struct sort_runs *runs; /* it is added to these */
	const int *stop;        /* may be NULL */
	unsigned order_len;
	unsigned nr_threads; /* more than one: the run may have several pieces */
};

/* Merge packs into a run, by ranges of names if there are threads: spill.c. */
int sort_spill(const struct sort_spill_job *job, const struct pack *packs, uint32_t nr,
	       struct shoal_err *err) MUST_USE;

#endif
