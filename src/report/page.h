/* page.h - the results of runs as one self-contained HTML page. */
#ifndef SHOAL_REPORT_PAGE_H
#define SHOAL_REPORT_PAGE_H

#include "base/err.h"

/*
 * Write the results in @folders to the page @path. The page states what is missing or damaged; a
 * folder without any results is -ENOENT. @made is the time to print. If @path is NULL, all of this
 * is checked and nothing is kept.
 */
int report_page_write(const char *const *folders, size_t nr, const char *path, uint64_t made_ns,
		      struct shoal_err *err) MUST_USE;

#endif
