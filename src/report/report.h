/*
 * report.h - the record of a run as files and as text. Nothing is computed here but units.
 *
 * Files appear under their names all at once, or not at all.
 */
#ifndef SHOAL_REPORT_REPORT_H
#define SHOAL_REPORT_REPORT_H

#include "bench/result.h"
#include "bench/steplog.h"

/*
 * summary.json, with the fields that DLIO has, and under "shoal" what it has not. As text, to be
 * freed.
 */
int report_summary_text(const struct bench_result *r, char **ret_text,
			struct shoal_err *err) SHOAL_MUST_USE;
int report_summary_write(const struct bench_result *r, const char *folder,
			 struct shoal_err *err) SHOAL_MUST_USE;

/* config.yaml: the workload as it was, with all its values. */
int report_config_write(const struct bench_result *r, const char *folder,
			struct shoal_err *err) SHOAL_MUST_USE;

/*
 * RANK_output.json and RANK_per_epoch_stats.json of each accelerator of this process, whose ranks
 * are @first_rank and on, from the record of steps. In DLIO an accelerator is a rank.
 */
int report_ranks_write(const struct bench_result *r, const struct bench_log *log,
		       uint64_t first_rank, uint64_t nr_hosts, const char *folder,
		       struct shoal_err *err) SHOAL_MUST_USE;

/* A table for people, to be freed. With @colour escapes for a terminal. */
int report_table_text(const struct bench_result *r, bool colour, char **ret_text,
		      struct shoal_err *err) SHOAL_MUST_USE;

#endif
