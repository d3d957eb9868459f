/*
 * checkpoint.h - let an interrupted listing resume.
 *
 * While a listing runs, its sorted runs (".NAME.runs") lie beside the catalog, together with a
 * checkpoint (".NAME.resume") that is renewed from time to time: where the runs are, and which
 * units were waiting or begun when it was written. The process that resumes takes these over; units
 * that had been begun are listed again, and a name that was seen twice counts once. Both files are
 * removed when the catalog is sealed.
 *
 * Each of several ranks has its own: rank 0 those above, and rank R of N the same with ".R-of-N"
 * appended to the name. They are written independently: a unit that moved to another rank is in at
 * least one of them (see balance.c). Rank 0's checkpoint records how many ranks there are and when
 * the listing began, which identifies the files of the others; it is first written when all others
 * have written theirs.
 *
 * The same number of ranks continue where they are. With another number each new rank takes over
 * what some of the old ones left; this takes effect with rank 0's first checkpoint, and until then
 * the old files remain valid.
 */
#ifndef SHOAL_INDEX_CHECKPOINT_H
#define SHOAL_INDEX_CHECKPOINT_H

#include "base/buf.h"
#include "base/map.h"
#include "base/span.h"
#include "index/exchange.h"
#include "index/provenance.h"
#include "index/walk.h"
#include "sort/run.h"
#include "sort/sort.h"

/*
 * The file: magic; varints started, nr_names, nr_unreadable, nr_foreign, runs_end, rank, nr_ranks,
 * session; root and listing, each a varint and its bytes; the length of the runs as 8 bytes and the
 * runs; the same for sums, units, handoffs and got; XXH3 of everything before it.
 */
#define INDEX_CHECKPOINT_MAGIC     "SHOALCP5"
#define INDEX_CHECKPOINT_MAGIC_LEN 8u

/* A checkpoint, as stored in the file. */
struct index_checkpoint {
	uint64_t started, nr_names, nr_unreadable, nr_foreign, runs_end;
	uint64_t rank, nr_ranks;
	uint64_t session; /* which of the listing's runs, if it was interrupted, wrote it */
	const char *root, *listing; /* of these lengths, not ended by a NUL */
	size_t root_len, listing_len;
	struct span runs;  /* three varints each */
	struct span sums;  /* for each a varint, the end of its range in the runs' file, and XXH3 of
			      that range */
	struct span units; /* a list, see queue.h */
	struct span handoffs; /* each two varints, the rank and the number, and a unit of a list */
	struct span got;      /* a varint per rank: how many of its handoffs this includes */
};

/* A checkpoint that was taken over, until its units are given to a walk. */
struct index_adopted {
	struct map map;
	struct index_checkpoint c;
	uint64_t *taken; /* per old rank: handoffs to it that its own checkpoint includes; NULL: no
			    handoffs */
};

struct index_job;

struct index_resume {
	int rank, nr_ranks;
	int old_ranks;             /* ranks that left a checkpoint; 0: this is a new listing */
	const char *output, *root; /* lent */
	char *runs_path, *state_path;
	char *listing;    /* the request as text: to detect the checkpoint of another listing */
	uint64_t started; /* when the listing first began */
	uint64_t session; /* when this run of it began */
	uint64_t *got;    /* handoffs from each rank: 8 bytes per rank; NULL with one */
	struct sort_runs runs; /* checkpoints that were taken over */
	struct sort_spill spill;
	uint64_t nr_names, nr_unreadable; /* names listed and left out before */
	uint64_t nr_foreign;              /* directories of other file systems, before */
	/* Checkpoints to take over: as many as there were more ranks than now, at least one. */
	struct index_adopted *adopted;
	size_t nr_adopted;
	bool found;
	bool alone; /* not all ranks have written their first one, so ours cannot be used */
	/* While it lists: */
	struct buf
		sums; /* of the runs' file: end of a range, and its XXH3; 18 bytes per checkpoint */
	uint64_t summed;      /* how far */
	uint64_t nr_finished; /* steps of the walk, at the last checkpoint */
	double next;          /* when to write the next checkpoint, in seconds */
	double took;          /* this is the last one */
};

/* ".NAME.SUFFIX" beside @output. The caller frees it; NULL without memory. */
char *index_resume_path(const char *output, const char *suffix);

/* The same for one of several ranks: rank 0's is as above. */
char *index_resume_path_of(const char *output, const char *suffix, int rank, int nr_ranks);

/* Remove this rank's files. */
void index_resume_remove(const char *output, int rank, int nr_ranks);

/*
 * Remove checkpoint files left by a run with a number of ranks other than @nr_ranks. The caller
 * must hold the catalog's lock.
 */
void index_resume_sweep(const char *output, int nr_ranks);

/* How many ranks an interrupted listing for @output had, from rank 0's checkpoint; 0: there is
 * none. */
int index_resume_ranks(const char *output);

/* Remove the files of an interrupted listing for @output: a later one is complete. */
void index_resume_forget(const char *output);

/*
 * Take over the checkpoint of an earlier listing for the output, or start a new one. The catalog's
 * writer is open, so no other process uses it. Rank 0 goes first. -EINVAL if the checkpoint is of
 * another listing: of another place, or with other options. Files that other ranks might read do
 * not change before index_resume_begin().
 */
int index_resume_open(struct index_resume *r, const struct index_job *job,
		      struct shoal_err *err) MUST_USE;

/*
 * Check the names that were listed before, and add them to @sample unless it is NULL. @any_name:
 * leading slashes and ".." are allowed.
 */
int index_resume_names(const struct index_resume *r, bool any_name, struct index_sample *sample,
		       struct shoal_err *err) MUST_USE;

/* @done: the catalog is sealed, and the files are removed; otherwise they stay. */
void index_resume_close(struct index_resume *r, bool done);

/* Give the units of the checkpoint to @walk. */
int index_resume_units(struct index_resume *r, struct index_walk *walk,
		       struct shoal_err *err) MUST_USE;

/* Write the first checkpoint of this run: before all ranks have, no rank may hand units to
 * another. Not needed with one rank if there was one before. */
int index_resume_begin(struct index_job *j, struct shoal_err *err) MUST_USE;

/* Whether the checkpoint is of another number of ranks, so that a first one must be written. */
bool index_resume_is_dealt_anew(const struct index_resume *r);

/* Once rank 0 has begun: remove the files of other ranks that were taken over. */
void index_resume_drop_old(const struct index_resume *r);

/* Write a checkpoint if it is due, or if @now is set: 1 if one was written, or 0. */
int index_resume_checkpoint(struct index_job *j, const struct index_walk_state *state, bool now,
			    struct shoal_err *err) MUST_USE;

/* The pure part of index_resume_open(). -EBADMSG if it is not a complete checkpoint. */
int index_checkpoint_parse(const void *buf, size_t len,
			   struct index_checkpoint *ret_checkpoint) MUST_USE;

/* Whether it begins like a checkpoint of an older or newer version. */
bool index_checkpoint_is_other_version(const void *buf, size_t len);

/* The next run, handoff: 1, 0 at the end, or -EBADMSG. */
int index_checkpoint_run(struct span *runs, uint64_t runs_end, struct sort_run *ret_run) MUST_USE;
int index_checkpoint_handoff(struct span *handoffs, uint64_t *ret_to, uint64_t *ret_nr,
			     struct index_unit_ref *ret_unit) MUST_USE;

/* XXH3 of the runs' file from byte @from to @end. */
int index_checkpoint_sum(int fd, uint64_t from, uint64_t end, uint64_t *ret_sum) MUST_USE;

/* How many handoffs of rank @from the checkpoint includes. */
uint64_t index_checkpoint_got(const struct index_checkpoint *c, uint64_t from);

/*
 * Map a checkpoint. -ENOENT; -EPERM if it belongs to another user, has several names or is a link,
 * because its names would go into the catalog as if they had been listed.
 */
int index_checkpoint_map(const char *path, struct map *ret_map, struct shoal_err *err) MUST_USE;

#endif
