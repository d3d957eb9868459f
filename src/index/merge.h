/* merge.h - merge sorted runs, in as many passes as the memory needs. */
#ifndef SHOAL_INDEX_MERGE_H
#define SHOAL_INDEX_MERGE_H

#include "index/run.h"

struct index_merge_job {
	int fd;                  /* of the spill file */
	struct index_runs *runs; /* in order of input; used up */
	struct shoal_out *out;   /* at the end of the spill file, for runs made of runs */
	uint8_t *memory;         /* for the buffers */
	size_t memory_len;
	const int *stop;    /* may be NULL */
	uint64_t *repeated; /* counts entries dropped because a later one has the name */
	shoal_entry_fn *take;
	void *self;
};

int index_merge(struct index_merge_job *job, struct shoal_err *err) SHOAL_MUST_USE;

#endif
