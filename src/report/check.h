/*
 * check.h - what mlpstorage's submission checker would refuse in a tree of results, and why.
 *
 * The rules and their numbers are those of mlpstorage 3.0.26 for training, or those of September
 * 2026. Not checked: the schema of systems/NAME.yaml beyond the fields that other rules use,
 * checkpointing, and everything that the checker only warns about.
 */
#ifndef SHOAL_REPORT_CHECK_H
#define SHOAL_REPORT_CHECK_H

#include "base/err.h"

/* A finding: the number of the rule, where, and one sentence. */
typedef void check_found_fn(void *self, const char *rule, const char *path, const char *words);

/*
 * Check the tree at @root; with @newer by the rules of September 2026. Returns the number of
 * findings, or an error of reading; what could not be read was not checked.
 */
int report_check(const char *root, bool newer, check_found_fn *found, void *self,
		 struct shoal_err *err) MUST_USE;

#endif
