/* merge.h - merge sorted runs, in as many passes as the memory needs, or packs. */
#ifndef SHOAL_INDEX_MERGE_H
#define SHOAL_INDEX_MERGE_H

#include "catalog/digest.h"
#include "index/chunk.h"
#include "index/run.h"

struct index_merge_job {
	int fd;                  /* of the spill file */
	struct index_runs *runs; /* in order of input; used up */
	uint64_t keep; /* what lies before this in the file stays: somebody may start again there */
	struct shoal_out *out; /* at the end of the spill file, for runs made of runs */
	uint8_t *memory;       /* for the buffers */
	size_t memory_len;
	const int *stop;    /* may be NULL */
	uint64_t *repeated; /* counts entries dropped because a later one has the name */
	shoal_entry_fn *take;
	void *self;
	/* Gets all that is taken, too, but on the thread that merges, which has more time. May be
	 * NULL. */
	struct cat_digester *digester;
};

int index_merge(struct index_merge_job *job, struct shoal_err *err) SHOAL_MUST_USE;

/* Hand what is in packs to the job's taker, without its file: what is said of files does not
 * count, and the memory is for the job alone. */
int index_merge_packs(struct index_merge_job *job, const struct index_pack *packs, uint32_t nr,
		      struct shoal_err *err) SHOAL_MUST_USE;

/* Make one run of packs, at the end of @out. */
int index_merge_into_run(const struct index_pack *packs, uint32_t nr, struct shoal_out *out,
			 uint64_t *repeated, struct index_run *ret_run,
			 struct shoal_err *err) SHOAL_MUST_USE;

#endif
