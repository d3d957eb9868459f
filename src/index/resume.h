/*
 * resume.h - let a listing that was interrupted go on.
 *
 * Beside the catalog lie, while it is listed, the sorted runs (".NAME.runs") and from time to time
 * a checkpoint (".NAME.resume"): where the runs are, and what was waiting or begun when they were
 * written. Whoever goes on takes these over; what had been begun is listed again, and names that
 * were seen twice are one name. Both are removed when the catalog is sealed.
 *
 * Of several ranks each has its own, with its number behind the name. They write them when they
 * like: a unit that changed places is in at least one of them (see share.c). A set of checkpoints
 * is known by when the listing began, which rank 0 decides; rank 0 writes its first one when all
 * others have.
 */
#ifndef SHOAL_INDEX_RESUME_H
#define SHOAL_INDEX_RESUME_H

#include "base/buf.h"
#include "base/map.h"
#include "base/span.h"
#include "index/cuts.h"
#include "index/listing.h"
#include "index/run.h"
#include "index/walk.h"

struct index_resume {
	int rank, nr_ranks;
	char *runs_path, *state_path;
	const char *root; /* lent */
	char *listing;    /* what is asked for, as text: to tell a checkpoint of something else */
	bool etags;       /* are in the runs */
	uint64_t started; /* when the listing began, maybe long ago */
	struct index_runs runs; /* of the checkpoint taken over */
	struct index_spill spill;
	uint64_t nr_names, nr_unreadable; /* listed, and left out, before */
	/* The checkpoint's units, until they are given to a walk. */
	struct shoal_map map;
	struct shoal_span units;
	bool found;
	bool alone; /* not all ranks have written their first one, so that ours is of no use */
	/* While it lists: */
	struct shoal_sorter *sorter;
	struct shoal_buf sums; /* of the runs' file: up to where, and XXH3; 18 bytes a checkpoint */
	uint64_t summed;       /* how far */
	uint64_t nr_finished;  /* steps of the walk, at the last checkpoint */
	double next;           /* when to write a checkpoint, in seconds */
	double took;           /* the last one */
};

/* ".NAME.SUFFIX" beside @output; the caller's to free, NULL without memory. */
char *index_resume_path(const char *output, const char *suffix);

/* Remove what an interrupted listing for @output left: there is a later one, whole. */
void index_resume_forget(const char *output);

/* When the interrupted listing for @output began; @now when there is none that can be read. */
uint64_t index_resume_started(const char *output, int nr_ranks, uint64_t now);

/* What is listed, and who asks. All lent. */
struct index_resume_job {
	const char *output, *where, *root;
	const struct index_listing *listing;
	int rank, nr_ranks;
};

/*
 * Take over what an earlier listing for the output left, or start afresh. The catalog's writer is
 * open, so nobody else is at it. -EINVAL when the checkpoint is of another listing: of another
 * place, which the root need not tell, with other options, or by other ranks.
 */
int index_resume_open(struct index_resume *r, const struct index_resume_job *job,
		      struct shoal_err *err) SHOAL_MUST_USE;

/* Let @sample see the names that were listed before. */
int index_resume_sample(const struct index_resume *r, struct index_sample *sample,
			struct shoal_err *err) SHOAL_MUST_USE;

/* @done: the catalog is sealed, and nothing is left behind; else what is there stays. */
void index_resume_close(struct index_resume *r, bool done);

/* Give the units of the checkpoint to @walk. */
int index_resume_units(struct index_resume *r, struct index_walk *walk,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* Write the first checkpoint of a rank: before this no other rank may give it anything. */
int index_resume_begin(struct index_resume *r, struct index_walk *walk, struct shoal_sorter *sorter,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* Write a checkpoint if it is time to, or if @now: 1 when one was written, or 0. */
int index_resume_checkpoint(struct index_resume *r, struct index_walk *walk,
			    struct shoal_sorter *sorter, const struct index_walk_state *state,
			    bool now, struct shoal_err *err) SHOAL_MUST_USE;

/* A checkpoint, as it is in the file. The pure part of index_resume_open(). */
struct index_checkpoint {
	uint64_t started, nr_names, nr_unreadable, runs_end;
	const char *root, *listing; /* of these lengths, not ended by a NUL */
	size_t root_len, listing_len;
	struct shoal_span runs; /* three varints each */
	struct shoal_span sums; /* each a varint, up to where in the runs' file, and XXH3 of that */
	struct shoal_span units; /* each a varint, its length, and its bytes */
};

/* -EBADMSG for anything that is not a whole checkpoint. */
int index_checkpoint_parse(const void *buf, size_t len,
			   struct index_checkpoint *ret_checkpoint) SHOAL_MUST_USE;

/* The next run, unit: 1, 0 at the end, or -EBADMSG. */
int index_checkpoint_run(struct shoal_span *runs, uint64_t runs_end,
			 struct index_run *ret_run) SHOAL_MUST_USE;
int index_checkpoint_unit(struct shoal_span *units, const void **ret_unit,
			  size_t *ret_len) SHOAL_MUST_USE;

#endif
