/* shoal workloads: list the shipped workloads, or print one with all keys filled in. */
#include <inttypes.h>
#include <string.h>

#include "cli/hints.h"
#include "cli/workload_options.h"

static const char usage[] =
	"usage: shoal workloads [--json]\n"
	"       shoal workloads WORKLOAD|FILE.yaml [key=value]... [--json]\n"
	"\n"
	"List the shipped workloads, or print one as YAML with every default filled in, to be saved\n"
	"and changed.\n\n" WORKLOAD_USAGE "\n"
	"      --json   print the facts as JSON\n";

enum { OPT_JSON = 400 };

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void cmd_workloads_print_json(struct json *j, const struct workload *w)
{
	json_open_object(j, NULL);
	json_string(j, "name", w->name);
	json_string(j, "model", w->model);
	json_string(j, "format", workload_format_name(w->dataset.format));
	json_u64(j, "files", w->dataset.nr_files_train);
	json_u64(j, "samples_per_file", w->dataset.samples_per_file);
	json_real(j, "record_bytes", w->dataset.record_bytes, 17);
	json_real(j, "record_bytes_stdev", w->dataset.record_stdev, 17);
	json_u64(j, "batch", w->reader.batch);
	json_u64(j, "read_threads", w->reader.read_threads);
	json_real(j, "computation_seconds", workload_time_mean(&w->train.computation_time), 17);
	json_u64(j, "epochs", w->train.epochs);
	json_real(j, "au", w->au, 17);
	json_close_object(j);
}

static void print_line(const struct workload *w)
{
	printf("%-16s %-9s %8" PRIu64 " files of %6" PRIu64 " x %-12.15g batch %-4" PRIu64
	       " step %-9.6g epochs %-2" PRIu64 " AU %g %%\n",
	       w->name, workload_format_name(w->dataset.format), w->dataset.nr_files_train,
	       w->dataset.samples_per_file, w->dataset.record_bytes, w->reader.batch,
	       workload_time_mean(&w->train.computation_time), w->train.epochs, w->au * 100);
}

struct workloads_listing {
	struct json *json; /* NULL: lines of text */
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
	else
		print_line(w);
	l->nr++;
	workload_free(w);
	return 0;
}

static int print_all(bool json)
{
	struct json j = cli_json();
	struct workloads_listing l = { .json = json ? &j : NULL };
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

int cmd_workloads(int argc, char **argv)
{
	struct json j = cli_json();
	struct workload *w;
	bool json = false;
	int c;

	while ((c = cli_getopt(argc, argv, ":h", longs, NULL)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (c != OPT_JSON)
			return CLI_USAGE;
		json = true;
	}
	if (optind == argc)
		return print_all(json);
	w = cli_workload("workloads", argv + optind, argc - optind, false);
	if (!w)
		return CLI_FAILED;
	if (json)
		cmd_workloads_print_json(&j, w);
	else
		fputs(w->yaml, stdout);
	workload_free(w);
	return CLI_OK;
}
