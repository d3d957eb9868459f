/* What the commands that take a workload share. */
#include "cli/workload_options.h"
#include "cli/hints.h"

#include <math.h>

struct words {
	const char *command;
	bool quiet;
};

static void workload_options_warn(void *self, const char *text)
{
	const struct words *w = self;

	if (!w->quiet)
		cli_fail(w->command, "warning: %s", text);
}

struct workload *cli_workload(const char *command, char **args, int nr, bool quiet)
{
	struct words words = { .command = command, .quiet = quiet };
	struct workload *w = NULL;
	struct shoal_err err = { "" };
	int rc = workload_load(args[0], args + 1, (size_t)nr - 1, workload_options_warn, &words, &w,
			       &err);

	if (rc < 0 && !quiet)
		cli_fail(command, "%s", cli_words(command, &err));
	return rc < 0 ? NULL : w;
}

void cli_put_seconds(FILE *out, double seconds)
{
	double whole = floor(seconds + 0.5);

	if (seconds < 1)
		fprintf(out, "%.3g ms", seconds * 1e3);
	else if (seconds < 120)
		fprintf(out, "%.3g s", seconds);
	else if (whole < 7200)
		fprintf(out, "%.0fm %02.0fs", floor(whole / 60), fmod(whole, 60));
	else
		fprintf(out, "%.0fh %02.0fm", floor(whole / 3600), floor(fmod(whole, 3600) / 60));
}
