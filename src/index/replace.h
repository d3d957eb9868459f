/* replace.h - what a new catalog may replace: a failed listing must not destroy a good catalog. */
#ifndef SHOAL_INDEX_REPLACE_H
#define SHOAL_INDEX_REPLACE_H

#include "shoal.h"

#include "base/base.h"

/*
 * Before anything is listed, if the options are careful: -EEXIST if the output exists and is not a
 * catalog. *@ret_least is the minimum number of names of the new one: at least one unless
 * @may_be_empty, and half of those in the catalog that it would replace.
 */
int index_replace_check(const struct shoal_index_options *options, bool may_be_empty,
			uint64_t *ret_least, struct shoal_err *err) MUST_USE;

/* -EEXIST, because @nr names are too few to replace the output. */
int index_replace_refuse(const struct shoal_index_options *options, uint64_t nr,
			 struct shoal_err *err) MUST_USE;

#endif
