/* compare_ranks.h - a command checks that all its ranks are about to do the same. */
#ifndef SHOAL_CLI_COMPARE_RANKS_H
#define SHOAL_CLI_COMPARE_RANKS_H

#include <stdio.h>

#include "comm/compare.h"

/* What a line says of an option that may not have been given. */
static inline const char *cli_or_none(const char *value)
{
	return value ? value : "none";
}

/*
 * Collective: compare the lines that @describe writes about @self, as comm_compare() does.
 */
int cli_compare_ranks(struct comm *comm, void (*describe)(FILE *f, const void *self),
		      const void *self, struct shoal_err *err) MUST_USE;

#endif
