/* shoal report: the results of runs as one page. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/mark.h"
#include "base/path.h"
#include "base/stats.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "report/figures.h"
#include "report/page.h"
#include "run/folder.h"

struct cmd_report_arguments {
	const char *output;
	bool dry_run, force, json;
};

struct report_job {
	const char *const *folders;
	size_t nr;
	const char *path; /* of the page; "-": standard output */
	uint64_t now;
};

static bool to_output(const struct report_job *r)
{
	return strcmp(r->path, "-") == 0;
}

/* ---- JSON ---- */

static bool is_sweep(const char *folder)
{
	char path[4096];
	struct stat st;

	return path_join(folder, run_file_name(RUN_FILE_SWEEP), path, sizeof(path), NULL) == 0 &&
	       stat(path, &st) == 0;
}

static void report_put_figures(struct json *j, const struct figures *f)
{
	json_string(j, "version", f->version);
	json_bool(j, "interrupted", f->partial);
	json_bool(j, "every_sample_once", !f->not_once);
	json_open_array(j, "figures");
	for (size_t i = 0; i < FIGURE_NR; i++) {
		if (f->of[i].nr == 0)
			continue;
		json_open_object(j, NULL);
		json_string(j, "figure", figure_name((enum figure)i));
		json_real(j, "mean", stats_mean(f->of[i].value, f->of[i].nr), 9);
		json_u64(j, "values", f->of[i].nr);
		json_close_object(j);
	}
	json_close_array(j);
}

/* What a folder has results of; "none" if the command did not come to its end, and why. */
static void report_put_folder(struct json *j, const char *folder)
{
	struct figures *f = malloc(sizeof(*f)); /* large */
	struct shoal_err err = { "" };

	json_open_object(j, NULL);
	json_string(j, "folder", folder);
	if (is_sweep(folder)) {
		json_string(j, "kind", "sweep");
	} else if (f && figures_load(folder, f, &err) == 0) {
		json_string(j, "kind", figures_command(f->kind));
		report_put_figures(j, f);
		figures_release(f);
	} else {
		json_null(j, "kind");
		json_string(j, "why", f ? err.msg : "out of memory");
		if (f)
			figures_release(f);
	}
	json_close_object(j);
	free(f);
}

static void report_print_json(const struct report_job *r, bool written)
{
	struct json j = cli_json();
	struct stat st;

	json_open_object(&j, NULL);
	json_string(&j, "report", r->path);
	json_u64(&j, "runs", r->nr);
	json_bool(&j, "written", written);
	if (written && stat(r->path, &st) == 0)
		json_u64(&j, "bytes", (uint64_t)st.st_size);
	json_open_array(&j, "results");
	for (size_t i = 0; i < r->nr; i++)
		report_put_folder(&j, r->folders[i]);
	json_close_array(&j);
	json_close_object(&j);
}

/* ---- The page ---- */

/* --dry-run: the page is made and discarded. */
static int report_try(const struct report_job *r, bool json)
{
	struct shoal_err err = { "" };
	struct stat st;

	if (!to_output(r) && stat(r->path, &st) == 0 && S_ISDIR(st.st_mode))
		return cli_fail("report", "'%s' is a directory: name a file", r->path);
	if (report_page_write(r->folders, r->nr, NULL, r->now, &err) < 0)
		return cli_fail("report", "%s", cli_words("report", &err));
	if (json)
		report_print_json(r, false);
	else
		cli_say("report", "a page with %zu run%s would be written to %s%s%s", r->nr,
			r->nr == 1 ? "" : "s", to_output(r) ? "" : "'",
			to_output(r) ? "standard output" : r->path, to_output(r) ? "" : "'");
	return CLI_OK;
}

static int report_write(const struct report_job *r)
{
	struct shoal_err err = { "" };
	int rc = to_output(r)
			 ? report_page_put(r->folders, r->nr, r->now, json_put_file, stdout, &err)
			 : report_page_write(r->folders, r->nr, r->path, r->now, &err);

	if (rc == 0)
		return CLI_OK;
	/* If it is about the results, it begins with their name. */
	return *err.msg == '\'' || to_output(r)
		       ? cli_fail("report", "%s", cli_words("report", &err))
		       : cli_fail("report", "'%s': %s", r->path, cli_words("report", &err));
}

static int cmd_report_run(void *arguments, int nr, char **words)
{
	const struct cmd_report_arguments *a = arguments;
	struct report_job r = { .folders = (const char *const *)words,
				.nr = (size_t)nr,
				.path = a->output ? a->output : run_file_name(RUN_FILE_PAGE),
				.now = clock_wall() };

	for (int i = 0; i < nr; i++) { /* "results/" is called "results" on the page */
		size_t len = strlen(words[i]);

		while (len > 1 && words[i][len - 1] == '/')
			words[i][--len] = '\0';
	}
	if (to_output(&r) && a->json)
		return cli_usage("report", "--json and the page cannot both go to standard output: "
					   "-o FILE");
	if (!to_output(&r) &&
	    cli_keep_foreign("report", r.path, "a report", MARK_OF_PAGE, a->force) != CLI_OK)
		return CLI_FAILED;
	if (a->dry_run)
		return report_try(&r, a->json);
	if (report_write(&r) != CLI_OK)
		return CLI_FAILED;
	if (a->json)
		report_print_json(&r, true);
	else if (!a->output)
		printf("%s\n", r.path);
	return CLI_OK;
}

static const struct cli_option options[] = {
	CLI_TEXT('o', "output", "FILE", offsetof(struct cmd_report_arguments, output),
		 "write the page here, or with - to standard output (default: report.html, whose "
		 "name is printed). Listings of a folder with data leave out pages whose names end "
		 "in report.html"),
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
