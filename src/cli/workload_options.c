/* What the commands that take a workload share. */
#include "cli/workload_options.h"
#include "cli/hints.h"
#include "workload/yaml.h"

#include <errno.h>

struct words {
	const char *command;
	bool quiet;
};

static void workload_options_warn(void *self, const char *text)
{
	const struct words *w = self;

	if (!w->quiet)
		cli_warn(w->command, "%s", text);
}

bool cli_is_wrong_workload(int rc, const struct shoal_err *err, const char *where, size_t nr)
{
	struct workload *w = NULL;
	struct shoal_err ignored = { "" };

	if (rc == -ESRCH)
		return true;
	if (rc != -EINVAL || nr == 0)
		return false;
	if (yaml_message_is_of_override(err->msg))
		return true;
	if (workload_load(where, NULL, 0, NULL, NULL, &w, &ignored) < 0)
		return false;
	workload_free(w);
	return true;
}

int cli_workload(const char *command, char **args, int nr, bool quiet,
		 struct workload **ret_workload)
{
	struct words words = { .command = command, .quiet = quiet };
	struct shoal_err err = { "" };
	int rc = workload_load(args[0], args + 1, (size_t)nr - 1, workload_options_warn, &words,
			       ret_workload, &err);
	bool wrong = cli_is_wrong_workload(rc, &err, args[0], (size_t)nr - 1);

	if (rc >= 0)
		return CLI_OK;
	if (quiet)
		return wrong ? CLI_USAGE : CLI_FAILED;
	return wrong ? cli_usage(command, "%s", cli_words(command, &err))
		     : cli_fail(command, "%s", cli_words(command, &err));
}
