/*
 * resume.h - let a listing that was interrupted go on.
 *
 * Beside the catalog lie, while it is listed, the sorted runs (".NAME.runs") and from time to time
 * a checkpoint (".NAME.resume"): where the runs are, and what was waiting or begun when they were
 * written. Whoever goes on takes these over; what had been begun is listed again, and names that
 * were seen twice are one name. Both are removed when the catalog is sealed.
 *
 * Of several ranks each has its own: rank 0 those above, and rank R of N the same with ".R-of-N"
 * behind the name. They write them when they like: a unit that changed places is in at least one
 * of them (see share.c). Rank 0's says how many there are, and when the listing began, by which the
 * others are known; it writes its first one when all others have.
 *
 * As many ranks as then go on where they are. With another number each new rank takes over what
 * some of the old ones left, and rank 0's first checkpoint is the moment from which that counts:
 * until then the old files are as good as before.
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

/*
 * The file: magic; varints started, nr_names, nr_unreadable, nr_foreign, runs_end, rank, nr_ranks,
 * session; root and listing, each a varint and its bytes; the length of the runs as 8 bytes and the
 * runs; the same for sums, units, gifts and got; XXH3 of all before it.
 */
#define INDEX_CHECKPOINT_MAGIC     "SHOALCP4"
#define INDEX_CHECKPOINT_MAGIC_LEN 8u

/* A checkpoint, as it is in the file. */
struct index_checkpoint {
	uint64_t started, nr_names, nr_unreadable, nr_foreign, runs_end;
	uint64_t rank, nr_ranks;
	uint64_t session;           /* which of the listing's interrupted runs wrote it */
	const char *root, *listing; /* of these lengths, not ended by a NUL */
	size_t root_len, listing_len;
	struct shoal_span runs; /* three varints each */
	struct shoal_span sums; /* each a varint, up to where in the runs' file, and XXH3 of that */
	struct shoal_span units; /* each a varint, its length, and its bytes */
	struct shoal_span gifts; /* each two varints, to whom and which, and a unit */
	struct shoal_span got;   /* a varint for each rank: how many gifts of its are in this */
};

/* One that was taken over, until its units are given to a walk. */
struct index_adopted {
	struct shoal_map map;
	struct index_checkpoint c;
	uint64_t *taken; /* for each old rank: gifts to it that are in its own; NULL: no gifts */
};

struct index_resume {
	int rank, nr_ranks;
	int old_ranks;             /* that left something; 0: this is a new listing */
	const char *output, *root; /* lent */
	char *runs_path, *state_path;
	char *listing;    /* what is asked for, as text: to tell a checkpoint of something else */
	bool etags;       /* are in the runs */
	uint64_t started; /* when the listing began, maybe long ago */
	uint64_t session; /* when this run of it did */
	uint64_t *got;    /* gifts from each rank: 8 bytes for each; NULL with one */
	struct index_runs runs; /* that were taken over */
	struct index_spill spill;
	uint64_t nr_names, nr_unreadable; /* listed, and left out, before */
	uint64_t nr_foreign;              /* directories of other file systems, before */
	/* As many as there were more ranks than now, one at least. */
	struct index_adopted *adopted;
	size_t nr_adopted;
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

/* The same of one of several ranks: rank 0's is as above. */
char *index_resume_path_of(const char *output, const char *suffix, int rank, int nr_ranks);

/* Remove what this rank left. */
void index_resume_remove(const char *output, int rank, int nr_ranks);

/*
 * Remove files of other numbers of ranks than @nr_ranks: a change of that number which was killed
 * at an unlucky moment leaves some that no checkpoint knows of. By who has the catalog to itself.
 */
void index_resume_sweep(const char *output, int nr_ranks);

/* How many ranks left a listing for @output interrupted, by rank 0's checkpoint; 0: there is none.
 */
int index_resume_ranks(const char *output);

/* Remove what an interrupted listing for @output left: there is a later one, whole. */
void index_resume_forget(const char *output);

/* What is listed, and who asks. All lent. */
struct index_resume_job {
	const char *output, *where, *root;
	const struct index_listing *listing;
	int rank, nr_ranks;
	/* What rank 0 has found, for the others to go by; it finds that out itself. */
	uint64_t started, session;
	int old_ranks;
};

/*
 * Take over what an earlier listing for the output left, or start afresh. The catalog's writer is
 * open, so nobody else is at it. Rank 0 does so first. -EINVAL when the checkpoint is of another
 * listing: of another place, which the root need not tell, or with other options. Until
 * index_resume_begin() nothing is changed that others might read.
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

/*
 * Write the first checkpoint of this run: before all ranks have, none may give anything to another.
 * Alone, and as many as before, nobody needs to.
 */
int index_resume_begin(struct index_resume *r, struct index_walk *walk, struct shoal_sorter *sorter,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* Whether what is there is another number of ranks', so that it must be begun. */
bool index_resume_is_dealt_anew(const struct index_resume *r);

/* Once rank 0 has begun: remove what was other ranks', and is ours now. */
void index_resume_drop_old(const struct index_resume *r);

/* Write a checkpoint if it is time to, or if @now: 1 when one was written, or 0. */
int index_resume_checkpoint(struct index_resume *r, struct index_walk *walk,
			    struct shoal_sorter *sorter, const struct index_walk_state *state,
			    bool now, struct shoal_err *err) SHOAL_MUST_USE;

/* The pure part of index_resume_open(). -EBADMSG for anything that is not a whole checkpoint. */
int index_checkpoint_parse(const void *buf, size_t len,
			   struct index_checkpoint *ret_checkpoint) SHOAL_MUST_USE;

/* The next run, unit, gift: 1, 0 at the end, or -EBADMSG. */
int index_checkpoint_run(struct shoal_span *runs, uint64_t runs_end,
			 struct index_run *ret_run) SHOAL_MUST_USE;
int index_checkpoint_unit(struct shoal_span *units, const void **ret_unit,
			  size_t *ret_len) SHOAL_MUST_USE;
int index_checkpoint_gift(struct shoal_span *gifts, uint64_t *ret_to, uint64_t *ret_nr,
			  const void **ret_unit, size_t *ret_len) SHOAL_MUST_USE;

/* How many gifts of rank @from are in the checkpoint. */
uint64_t index_checkpoint_got(const struct index_checkpoint *c, uint64_t from);

#endif
