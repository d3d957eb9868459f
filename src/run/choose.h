/* choose.h - which files of a catalog a run reads, and whether they are those of its workload. */
#ifndef SHOAL_RUN_CHOOSE_H
#define SHOAL_RUN_CHOOSE_H

#include "run/dataset.h"

/* Files of which names, and sizes, are checked. */
#define RUN_PROBES 64u

/* The extensions of each format. */
#define RUN_ENDINGS_MAX 2u
extern const char *const run_endings[][RUN_ENDINGS_MAX];

/* How many samples a file of computed size has in a catalog: rows are read in groups. */
uint64_t run_samples_in_file(const struct workload *w);

/* The files below folder @name, or all files if there is no such folder. */
int run_choose_range(const struct shoal_catalog *cat, const char *name, bool or_all,
		     struct run_data_part *part, struct shoal_err *err) MUST_USE;

/* Reduce @part to the first @want files, after checking some of them. */
int run_choose_files(struct run_data_part *part, const struct workload *w, uint64_t want,
		     const char *key, struct shoal_err *err) MUST_USE;

/* Estimate its bytes. */
void run_measure_part(struct run_data_part *part);

#endif
