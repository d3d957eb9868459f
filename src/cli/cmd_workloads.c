/* shoal workloads: list the shipped workloads, or print one with all keys filled in. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/workload_options.h"

static void cmd_workloads_print_json(struct json *j, const struct workload *w)
{
	json_open_object(j, NULL);
	json_string(j, "name", w->name);
	json_string(j, "model", w->model);
	json_string(j, "format", workload_format_name(w->dataset.format));
	json_u64(j, "files", w->dataset.nr_files_train);
	json_u64(j, "samples_per_file", w->dataset.samples_per_file);
	json_real(j, "record_bytes", w->dataset.record_bytes, 15);
	json_real(j, "record_bytes_stdev", w->dataset.record_stdev, 15);
	json_u64(j, "batch", w->reader.batch);
	json_u64(j, "read_threads", w->reader.read_threads);
	json_real(j, "computation_seconds", workload_time_mean(&w->train.computation_time), 15);
	json_u64(j, "epochs", w->train.epochs);
	json_real(j, "au", w->au, 15);
	json_close_object(j);
}

/* A line fits 80 columns; in a narrower window it has less. */
static void print_heads(bool narrow)
{
	if (narrow)
		printf("%-15s %-8s %7s %9s %5s %4s\n", "workload", "format", "files", "bytes",
		       "batch", "AU %");
	else
		printf("%-15s %-8s %7s %8s %9s %5s %9s %6s %4s\n", "workload", "format", "files",
		       "per file", "bytes", "batch", "step s", "epochs", "AU %");
}

static void print_line(const struct workload *w, bool narrow)
{
	printf("%-15s %-8s %7" PRIu64, w->name, workload_format_name(w->dataset.format),
	       w->dataset.nr_files_train);
	if (!narrow)
		printf(" %8" PRIu64, w->dataset.samples_per_file);
	printf(" %9.9g %5" PRIu64, w->dataset.record_bytes, w->reader.batch);
	if (!narrow)
		printf(" %9.6g %6" PRIu64, workload_time_mean(&w->train.computation_time),
		       w->train.epochs);
	printf(" %4g\n", w->au * 100);
}

struct workloads_listing {
	struct json *json; /* NULL: lines of text */
	bool narrow;       /* the window */
	bool failed;
	unsigned nr; /* printed */
};

static int cmd_workloads_print_entry(void *self, const char *name, const char *path)
{
	struct workloads_listing *l = self;
	struct workload *w = NULL;
	struct shoal_err err = { "" };
	char *args[1];
	int rc;

	(void)path;
	args[0] = NULL;
	rc = workload_load(name, args, 0, NULL, NULL, &w, &err);
	if (rc < 0) { /* one bad file does not hide the others */
		cli_fail("workloads", "%s", cli_words("workloads", &err));
		l->failed = true;
		return 0;
	}
	if (l->json)
		cmd_workloads_print_json(l->json, w);
	else if (l->nr == 0)
		print_heads(l->narrow);
	if (!l->json)
		print_line(w, l->narrow);
	l->nr++;
	workload_free(w);
	return 0;
}

static int print_all(bool json)
{
	struct json j = cli_json();
	struct workloads_listing l = { .json = json ? &j : NULL,
				       .narrow = isatty(STDOUT_FILENO) &&
						 cli_columns(STDOUT_FILENO) < 80 };
	struct shoal_err err = { "" };
	int rc;

	if (json)
		json_open_array(&j, NULL);
	rc = workload_list(cmd_workloads_print_entry, &l, &err);
	if (json)
		json_close_array(&j);
	if (rc < 0)
		return cli_fail("workloads", "%s", cli_words("workloads", &err));
	if (l.nr == 0 && !l.failed)
		return cli_fail("workloads", "there are no shipped workloads");
	return l.failed ? CLI_FAILED : CLI_OK;
}

struct cmd_workloads_arguments {
	bool json;
};

static int cmd_workloads_run(void *arguments, int nr, char **words)
{
	const struct cmd_workloads_arguments *a = arguments;
	struct json j = cli_json();
	struct workload *w;
	int status;

	if (nr == 0)
		return print_all(a->json);
	status = cli_workload("workloads", words, nr, false, &w);
	if (status != CLI_OK)
		return status;
	if (a->json)
		cmd_workloads_print_json(&j, w);
	else
		fputs(w->yaml, stdout);
	workload_free(w);
	return CLI_OK;
}

static const struct cli_option options[] = {
	CLI_JSON(offsetof(struct cmd_workloads_arguments, json)),
	CLI_END,
};

const struct cli_command cmd_workloads = {
	.name = "workloads",
	.summary = "list the shipped workloads, or print one",
	.usage = "[OPTION]...\nWORKLOAD|FILE.yaml [KEY=VALUE]... [OPTION]...",
	.about =
		"List the shipped workloads: format, training files, samples per file, bytes per "
		"sample, batch size, seconds of computation per step, epochs and the accelerator "
		"utilisation (AU) that is required. Or print one as YAML with every default filled "
		"in, to be saved and changed.\n" WORKLOAD_HELP,
	.sections = { { .options = options } },
	.size = sizeof(struct cmd_workloads_arguments),
	.run = cmd_workloads_run,
};
