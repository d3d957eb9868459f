/*
 * sort.h - sort any number of names in bounded memory.
 *
 * Entries are collected in packers, which the sorter's threads sort into packs when they are full.
 * When one half of the memory is full, one of these threads merges its packs into a front-coded
 * run on disk while the other half fills. At the end the runs are merged, in several passes if
 * necessary. If everything fits into one half nothing is spilled, and the packs are merged in
 * memory.
 *
 * Several threads may add at the same time, each on a lane, which fills a packer of its own.
 */
#ifndef SHOAL_SORT_SORT_H
#define SHOAL_SORT_SORT_H

#include "base/err.h"
#include "sort/pack.h"

struct sorter;

/* Receives the entries in order. Returns 0 to continue, or an error. */
typedef int sort_entry_fn(void *self, const struct sort_entry *entry, struct shoal_err *err);

/* Sees each entry just before it is taken, on the merging thread, which has time to spare: what
 * is computed from the sorted entries is best computed here. */
struct sort_stage {
	bool (*see)(void *self, const struct sort_entry *entry);
	void *self;
	/* The consumer calls this before it takes an entry for which see() returned true, with its
	 * own `self`. */
	int (*before)(void *self, struct shoal_err *err);
};

struct sort_runs;

/* A file of runs that outlives the sorter. Lent. */
struct sort_spill {
	int fd;
	uint64_t end;                 /* where new runs go */
	const struct sort_runs *runs; /* the existing runs, or NULL */
};

/* What a part's take returns for an entry that is no longer its own. */
#define SORT_ENOUGH 1

/* Where the entries of one range of names go. */
struct sort_part {
	/*
	 * NULL, or the part finds out itself where it begins and ends, in the same way as its
	 * neighbours: it gets all entries from the range's first name on until its take returns
	 * SORT_ENOUGH. *@repeated counts the entries that were dropped so far.
	 */
	void (*begin)(void *self, const struct sort_range *range, uint64_t *repeated);
	sort_entry_fn *take;                           /* called by the range's own thread */
	int (*end)(void *self, struct shoal_err *err); /* after the last, by that thread */
	void *self;
};

/* How far all names are cut into ranges that are merged at the same time. */
struct sort_limits {
	unsigned nr_max;     /* ranges */
	size_t least;        /* bytes of entries per range */
	size_t range_memory; /* that the parts take per range, besides the first */
};

struct sorter_options {
	size_t memory;       /* bytes to use, at least SORTER_MEMORY_MIN */
	const char *tmp_dir; /* for the runs */
	const struct sort_spill
		*spill;      /* runs to continue with; NULL: an unnamed file in tmp_dir */
	const int *stop;     /* the sort ends with -ECANCELED once it is not 0. May be NULL */
	unsigned nr_threads; /* that sort, 1 to SORTER_THREADS_MAX; 0: 1 */
	unsigned nr_lanes;   /* that add, 1 to SORTER_LANES_MAX; 0: 1 */
	/*
	 * 0, or how many bytes at the end of each payload say when it was added: of equal names
	 * that with the greatest is taken, without these bytes. Within a lane they must not fall.
	 */
	unsigned order_len;
};

#define SORTER_THREADS_MAX 8u

/* Each lane takes a packer; half-full packers waste memory, so there are few. */
#define SORTER_LANES_MAX 8u

/* The largest number of entries in a group. */
#define SORTER_GROUP_MAX 2048u

#define SORTER_MEMORY_MIN (256u << 10)

int sorter_new(const struct sorter_options *options, struct sorter **ret_sorter,
	       struct shoal_err *err) MUST_USE;
struct sorter *sorter_free(struct sorter *s);

/* Add an entry, whose name has no NUL. Only one thread may add at that time. */
int sorter_add(struct sorter *s, const struct sort_entry *entry, struct shoal_err *err) MUST_USE;

/*
 * Add up to SORTER_GROUP_MAX entries. From any thread; @lane is any number that differs between
 * threads that should not wait for each other. @group: they belong together, such as all of a
 * directory, and are best sorted at once.
 */
int sorter_add_many(struct sorter *s, unsigned lane, const struct sort_entry *entries, size_t nr,
		    bool group, struct shoal_err *err) MUST_USE;

/* Block all threads that add, until sorter_release(). Nothing is added between these calls. */
void sorter_hold(struct sorter *s);
void sorter_release(struct sorter *s);

/* While all are blocked, or no thread adds: spill all entries, and wait until they are in the
 * file. Then the runs contain everything. */
int sorter_flush(struct sorter *s, const struct sort_runs **ret_runs, uint64_t *ret_end,
		 struct shoal_err *err) MUST_USE;

/* Hand all entries to @take in bytewise order of their names. Of equal names the one added last
 * is taken; the others are counted in *@ret_repeated. @stage may be NULL. */
int sorter_finish(struct sorter *s, sort_entry_fn *take, void *self, const struct sort_stage *stage,
		  uint64_t *ret_repeated, struct shoal_err *err) MUST_USE;

/*
 * The same by ranges of names, each on a thread of its own, the first on the caller's: end the
 * input, ask for the number of ranges, and merge as many, with a part per range in the order of
 * names. If one range is enough, sorter_finish() is faster. In the end the memory is used for
 * buffers and left to the parts.
 */
int sorter_end_input(struct sorter *s, struct shoal_err *err) MUST_USE;
unsigned sorter_ranges(struct sorter *s, const struct sort_limits *limits) MUST_USE;
int sorter_finish_ranges(struct sorter *s, const struct sort_limits *limits,
			 const struct sort_part *parts, unsigned nr, uint64_t *ret_repeated,
			 struct shoal_err *err) MUST_USE;

#endif
