/*
 * seal.h - merge, digest and encode what was sorted, by ranges of names on several threads.
 *
 * The first range goes into the job's catalog, each other one into a catalog without a name, which
 * is appended without decoding. Ranges begin and end where the catalog is cut anyway, so its bytes
 * do not depend on their number.
 */
#ifndef SHOAL_INDEX_SEAL_H
#define SHOAL_INDEX_SEAL_H

#include "index/job.h"

/* Put all entries of the job's sorter into its writer. */
int index_seal_entries(struct index_job *j, uint64_t *ret_repeated, struct shoal_err *err) MUST_USE;

/* The same of the runs of @merge, whose take, self and stage are not used. */
struct sort_merge_job;
int index_seal_runs(struct index_job *j, struct sort_merge_job *merge,
		    struct shoal_err *err) MUST_USE;

/* Append the catalog in the file @fd, which is closed. */
int index_append_part(struct shoal_writer *w, int fd, struct shoal_err *err) MUST_USE;

#endif
