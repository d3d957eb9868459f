/* commands.h - the table of each command, in cmd_NAME.c. */
#ifndef SHOAL_CLI_COMMANDS_H
#define SHOAL_CLI_COMMANDS_H

#include "cli/options.h"

extern const struct cli_command cmd_cat, cmd_check, cmd_column, cmd_compare, cmd_completion,
	cmd_datagen, cmd_datasize, cmd_diff, cmd_filter, cmd_find, cmd_index, cmd_info, cmd_list,
	cmd_ls, cmd_manifest, cmd_merge, cmd_order, cmd_read, cmd_replay, cmd_report, cmd_run,
	cmd_split, cmd_stat, cmd_sweep, cmd_verify, cmd_workloads;

#endif
