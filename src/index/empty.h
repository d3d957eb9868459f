/* empty.h - the message for a listing that found nothing. */
#ifndef SHOAL_INDEX_EMPTY_H
#define SHOAL_INDEX_EMPTY_H

#include "index/job.h"

/*
 * Collective, for a listing without names on any rank: rank 0 explains why, as far as the counts
 * show it, with -ENOENT; the others return -EREMOTEIO.
 */
int index_say_empty(const struct index_job *j, const struct shoal_index_result *result,
		    struct shoal_err *err);

#endif
