/* stage.h - the output of a listing: options that name a file, which may become an object later. */
#ifndef SHOAL_INDEX_STAGE_H
#define SHOAL_INDEX_STAGE_H

#include "comm/comm.h"
#include "open/output.h"

struct index_stage {
	struct shoal_index_options options; /* the caller's options, but the output is a file */
	struct output output;
	uint64_t nr_names; /* for progress, while it is sent */
};

/* Collective: all ranks get the same file, which rank 0 names. @comm may be NULL. */
int index_stage_open(struct index_stage *s, const struct shoal_index_options *options,
		     struct comm *comm, struct shoal_err *err) MUST_USE;

/*
 * Before anything is listed, on one rank: output_protect(), if the options are careful. *@ret_least
 * is the minimum number of names: at least one unless @may_be_empty, and half of those in the
 * catalog that would be replaced.
 */
int index_stage_protect(struct index_stage *s, bool may_be_empty, uint64_t *ret_least,
			struct shoal_err *err) MUST_USE;

/* Send the sealed catalog of @nr_names names: on one rank. */
int index_stage_send(struct index_stage *s, uint64_t nr_names, struct shoal_err *err) MUST_USE;

/* All of it, in one process: @fill makes the catalog of at least @least names at the stage's file.
 */
typedef int index_stage_fill(void *self, struct index_stage *s, uint64_t least,
			     struct shoal_index_result *result, struct shoal_err *err);
int index_stage_run(const struct shoal_index_options *options, index_stage_fill *fill, void *self,
		    struct shoal_index_result *ret_result, struct shoal_err *err) MUST_USE;

#endif
