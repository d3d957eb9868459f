/*
 * folder.h - the folder of a sweep: plan.json (what is measured, and how), jobs/ (one record per
 * measurement), runs/ (the results folders of runs), sweep.json (the results) and report.html.
 */
#ifndef SHOAL_SWEEP_FOLDER_H
#define SHOAL_SWEEP_FOLDER_H

#include "sweep/result.h"

/*
 * Make the folder, or with @resume check that it holds this very sweep. Returns 1 with @force if
 * another sweep is there, which stays until sweep_folder_replace(). The lock keeps a second sweep
 * out. @words and @launcher (may be NULL) are the command's.
 */
int sweep_folder_open(const char *folder, const struct sweep_plan *plan, char *const *words,
		      size_t nr_words, const char *launcher, bool resume, bool force, int *ret_lock,
		      struct shoal_err *err) MUST_USE;
/* Remove the measurements of the other sweep, once this one has made its first. */
int sweep_folder_replace(const char *folder, const struct sweep_plan *plan, char *const *words,
			 size_t nr_words, const char *launcher, struct shoal_err *err) MUST_USE;

void sweep_folder_close(const char *folder, int lock);

/* Before it is closed: take the plan of a sweep away that has no records, so that another can
 * begin. */
void sweep_folder_forget(const char *folder);

/* Write sweep.json. */
int sweep_folder_write(const char *folder, char *const *words, size_t nr_words,
		       const char *launcher, const struct sweep_result *r,
		       struct shoal_err *err) MUST_USE;

#endif
