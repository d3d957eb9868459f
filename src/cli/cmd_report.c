/* shoal report: the results of runs as one page. */
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/mark.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "report/page.h"
#include "run/folder.h"

struct cmd_report_arguments {
	const char *output;
	bool dry_run, force, json;
};

static void report_print_json(const char *path, int nr, bool written)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_string(&j, "report", path);
	json_u64(&j, "runs", (uint64_t)nr);
	json_bool(&j, "written", written);
	json_close_object(&j);
}

/* --dry-run: the page is made and discarded. */
static int report_try(const char *const *folders, int nr, const char *path, bool json, uint64_t now)
{
	struct shoal_err err = { "" };
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return cli_fail("report", "'%s' is a directory: name a file", path);
	if (report_page_write(folders, (size_t)nr, NULL, now, &err) < 0)
		return cli_fail("report", "%s", cli_words("report", &err));
	if (json)
		report_print_json(path, nr, false);
	else
		cli_say("report", "a page with %d run%s would be written to '%s'", nr,
			nr == 1 ? "" : "s", path);
	return CLI_OK;
}

static int cmd_report_run(void *arguments, int nr, char **words)
{
	const struct cmd_report_arguments *a = arguments;
	const char *path = a->output ? a->output : run_file_name(RUN_FILE_PAGE);
	uint64_t now = clock_wall();
	struct shoal_err err = { "" };

	for (int i = 0; i < nr; i++) { /* "results/" is called "results" on the page */
		size_t len = strlen(words[i]);

		while (len > 1 && words[i][len - 1] == '/')
			words[i][--len] = '\0';
	}
	if (cli_keep_foreign("report", path, "a report", MARK_OF_PAGE, a->force) != CLI_OK)
		return CLI_FAILED;
	if (a->dry_run)
		return report_try((const char *const *)words, nr, path, a->json, now);
	if (report_page_write((const char *const *)words, (size_t)nr, path, now, &err) < 0)
		/* If it is about the results, it begins with their name. */
		return *err.msg == '\''
			       ? cli_fail("report", "%s", cli_words("report", &err))
			       : cli_fail("report", "'%s': %s", path, cli_words("report", &err));
	if (a->json)
		report_print_json(path, nr, true);
	else if (!a->output)
		printf("%s\n", path);
	return CLI_OK;
}

static const struct cli_option options[] = {
	CLI_TEXT('o', "output", "FILE", offsetof(struct cmd_report_arguments, output),
		 "write the page here (default: report.html, whose name is printed). Listings of a "
		 "folder with data leave out pages whose names end in report.html"),
	CLI_FLAG(0, "force", offsetof(struct cmd_report_arguments, force),
		 "replace a file that is not a report"),
	CLI_FLAG(0, "dry-run", offsetof(struct cmd_report_arguments, dry_run),
		 "write nothing: check the results, and print what would be written"),
	CLI_JSON(offsetof(struct cmd_report_arguments, json)),
	CLI_END,
};

const struct cli_command cmd_report = {
	.name = "report",
	.summary = "write a page with the results of runs, side by side",
	.usage = "RESULTS... [-o FILE]",
	.about =
		"Write one HTML page with the results in the folders that run, read, index and "
		"datagen made (--results): what limited them, where the time went, throughput and waits by step, which rank waited when, latency, and for "
		"several runs their differences. The page needs no network and no other file. What "
		"is missing or damaged, as after a crash, is stated on the page.\n",
	.sections = { { .options = options } },
	.min = 1,
	.give = "give at least one folder of results",
	.size = sizeof(struct cmd_report_arguments),
	.run = cmd_report_run,
};
