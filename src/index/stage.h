/* stage.h - a catalog that becomes an object is made in a temporary file first, and sent when it is
 * sealed. */
#ifndef SHOAL_INDEX_STAGE_H
#define SHOAL_INDEX_STAGE_H

#include "comm/comm.h"
#include "shoal.h"

struct index_stage {
	struct shoal_index_options options; /* the caller's options, but the output is a file */
	const char *uri;                    /* of the object; NULL: the output is a file anyway */
	uint64_t nr_names;                  /* for progress, while it is sent */
	char dir[2048];
	char path[2048 + 16]; /* in dir */
};

/* Collective: all ranks get the same file, which rank 0 names. @comm may be NULL. */
int index_stage_open(struct index_stage *s, const struct shoal_index_options *options,
		     struct comm *comm, struct shoal_err *err) MUST_USE;

/* Send the sealed catalog of @nr_names names: on one rank. */
int index_stage_send(struct index_stage *s, uint64_t nr_names, struct shoal_err *err) MUST_USE;

/* Remove the temporary file: on one rank, when no other rank uses it. */
void index_stage_release(const struct index_stage *s);

#endif
