/*
 * results.h - the names of files in folders of results: for those who write them, and for listings,
 * which leave them out where a folder of results lies below the data.
 *
 * run/folder.h says what each of them is.
 */
#ifndef SHOAL_BASE_RESULTS_H
#define SHOAL_BASE_RESULTS_H

#include <stddef.h>

#define RESULTS_SUMMARY   "summary.json"
#define RESULTS_READ      "read.json"
#define RESULTS_INDEX     "index.json"
#define RESULTS_DATAGEN   "datagen.json"
#define RESULTS_SWEEP     "sweep.json"
#define RESULTS_CONFIG    "config.yaml"
#define RESULTS_EFFECTIVE "effective.yaml"
#define RESULTS_PAGE      "report.html"

/* With these a command begins a folder: they are its mark. */
#define RESULTS_BEGIN "begin.json" /* of run, read, index and datagen */
#define RESULTS_PLAN  "plan.json"  /* of sweep */

/* A time series per rank: this, and the number of the rank. */
#define RESULTS_SERIES "series."

/* A file that may be a result is one if one of these marks is in its folder. */
enum { RESULTS_NONE = 0, RESULTS_NEEDS_BEGIN = 1, RESULTS_NEEDS_PLAN = 2 };

/*
 * For "r/summary.json", "r/series.0" or "r/jobs/00001.json", as in a folder of results: the bits
 * above, and the length of "r/". Files of other programs have such names, too.
 */
unsigned results_look(const char *name, size_t len, size_t *ret_folder);

#endif
