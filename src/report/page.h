/* page.h - the results of runs as one self-contained HTML page. */
#ifndef SHOAL_REPORT_PAGE_H
#define SHOAL_REPORT_PAGE_H

#include "base/err.h"
#include "base/json.h"

/*
 * Write the results in @folders to the page @path. The page states what is missing or damaged; a
 * folder without any results is -ENOENT. @made_ns is the time to print. If @path is NULL, all of
 * this is checked and nothing is kept.
 */
int report_page_write(const char *const *folders, size_t nr, const char *path, uint64_t made_ns,
		      struct shoal_err *err) MUST_USE;

/* The same to @put, once the page is complete. */
int report_page_put(const char *const *folders, size_t nr, uint64_t made_ns, json_put_fn *put,
		    void *self, struct shoal_err *err) MUST_USE;

/*
 * The page itself, through @put: around the data that @data writes, whose error is returned. A
 * @live page fetches data.json from where it came from.
 */
int report_page_frame(json_put_fn *put, void *self, bool live,
		      int (*data)(void *data_self, struct json *j, struct shoal_err *err),
		      void *data_self, struct shoal_err *err) MUST_USE;

#endif
