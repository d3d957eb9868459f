/*
 * report.h - the results of a run as files and as text. Only units are computed here.
 *
 * Files get their names when they are complete, or not at all.
 */
#ifndef SHOAL_REPORT_REPORT_H
#define SHOAL_REPORT_REPORT_H

#include "run/result.h"
#include "run/steplog.h"

/* summary.json: DLIO's fields, and further ones under "shoal". Text, which the caller frees. */
int report_summary_text(const struct run_result *r, char **ret_text,
			struct shoal_err *err) MUST_USE;
/* The same of one phase alone, as it is in the list of them. */
int report_phase_text(const struct run_result *r, size_t i, char **ret_text,
		      struct shoal_err *err) MUST_USE;
int report_summary_write(const struct run_result *r, const char *folder,
			 struct shoal_err *err) MUST_USE;

/*
 * config.yaml: the requested workload, that is the file with the overrides. effective.yaml: the
 * same with every default, and with the values that the run uses, which are known once it begins.
 */
int report_effective_text(const struct run_result *r, char **ret_text,
			  struct shoal_err *err) MUST_USE;
int report_config_write(const struct run_result *r, const char *folder,
			struct shoal_err *err) MUST_USE;

/*
 * RANK_output.json and RANK_per_epoch_stats.json of each accelerator of this process, whose ranks
 * start at @first_rank, from the step log. In DLIO an accelerator is a rank.
 */
int report_ranks_write(const struct run_result *r, const struct step_log *log, uint64_t first_rank,
		       uint64_t nr_hosts, const char *folder, struct shoal_err *err) MUST_USE;

/*
 * A table for people, which the caller frees. With @colour it has escapes for a terminal. The lines
 * of epochs are shorter than @window; 0: as long as they are. The caller folds the others.
 */
int report_table_text(const struct run_result *r, bool colour, size_t window, char **ret_text,
		      struct shoal_err *err) MUST_USE;

#endif
