/* workload_options.h - "WORKLOAD|FILE.yaml [key=value]...", which several commands take. */
#ifndef SHOAL_CLI_WORKLOAD_OPTIONS_H
#define SHOAL_CLI_WORKLOAD_OPTIONS_H

#include "cli/cli.h"
#include "workload/workload.h"

#define WORKLOAD_HELP                                                                              \
	"WORKLOAD is the name of a shipped one ('shoal workloads' lists them) or a DLIO workload " \
	"file, with a slash in its name or ending in .yaml. KEY=VALUE changes it, such as "        \
	"dataset.num_files_train=5000, also as ++workload.dataset.num_files_train=5000."

/* Load @args[0] with the overrides @args[1] to @args[@nr - 1]: CLI_OK, or the exit status. Errors
 * and warnings are printed unless @quiet: on one rank of many. */
int cli_workload(const char *command, char **args, int nr, bool quiet,
		 struct workload **ret_workload);

/* Whether workload_load() failed with @rc because the command line is wrong: @where is the name of
 * no workload; or one of @nr KEY=VALUEs is wrong, since @err is about one or @where alone is fine.
 */
bool cli_is_wrong_workload(int rc, const struct shoal_err *err, const char *where, size_t nr);

#endif
