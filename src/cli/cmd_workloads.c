/* shoal workloads: what ships, and what one says when all is filled in. */
#include <inttypes.h>
#include <string.h>

#include "cli/workload_options.h"

static const char usage[] =
	"usage: shoal workloads [--json]\n"
	"       shoal workloads WORKLOAD|FILE.yaml [key=value]... [--json]\n"
	"\n"
	"List the workloads that ship, or print one as YAML with every default filled in, to be kept\n"
	"and changed. " WORKLOAD_USAGE "\n"
	"      --json   print the facts as JSON\n";

enum { OPT_JSON = 400 };

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void print_json(const struct bench_workload *w)
{
	fputs("{\"name\": ", stdout);
	cli_json_string(w->name);
	fputs(", \"model\": ", stdout);
	cli_json_string(w->model);
	printf(", \"format\": \"%s\", \"files\": %" PRIu64 ", \"samples_per_file\": %" PRIu64
	       ", \"record_bytes\": %.17g, \"record_bytes_stdev\": %.17g, \"batch\": %" PRIu64
	       ", \"read_threads\": %" PRIu64
	       ", \"computation_seconds\": %.17g, \"epochs\": %" PRIu64 ", \"au\": %.17g}",
	       bench_format_name(w->dataset.format), w->dataset.nr_files_train,
	       w->dataset.samples_per_file, w->dataset.record_bytes, w->dataset.record_stdev,
	       w->reader.batch, w->reader.read_threads, bench_time_mean(&w->train.computation_time),
	       w->train.epochs, w->au);
}

static void print_line(const struct bench_workload *w)
{
	printf("%-16s %-9s %8" PRIu64 " files of %6" PRIu64 " x %-12.15g batch %-4" PRIu64
	       " step %-9.6g epochs %-2" PRIu64 " AU %g %%\n",
	       w->name, bench_format_name(w->dataset.format), w->dataset.nr_files_train,
	       w->dataset.samples_per_file, w->dataset.record_bytes, w->reader.batch,
	       bench_time_mean(&w->train.computation_time), w->train.epochs, w->au * 100);
}

struct listing {
	bool json, failed;
	unsigned nr; /* printed */
};

static int print_one(void *self, const char *name, const char *path)
{
	struct listing *l = self;
	struct bench_workload *w = NULL;
	struct shoal_err err = { "" };
	char *args[1];
	int rc;

	(void)path;
	args[0] = NULL;
	rc = bench_workload_load(name, args, 0, NULL, NULL, &w, &err);
	if (rc < 0) { /* one bad file does not hide the others */
		cli_fail("workloads", "%s", err.msg);
		l->failed = true;
		return 0;
	}
	if (l->json) {
		fputs(l->nr > 0 ? ",\n " : "", stdout);
		print_json(w);
	} else {
		print_line(w);
	}
	l->nr++;
	bench_workload_free(w);
	return 0;
}

static int print_all(bool json)
{
	struct listing l = { .json = json };
	struct shoal_err err = { "" };
	int rc;

	if (json)
		putchar('[');
	rc = bench_workload_list(print_one, &l, &err);
	if (json)
		puts("]");
	if (rc < 0)
		return cli_fail("workloads", "%s", err.msg);
	if (l.nr == 0 && !l.failed)
		return cli_fail("workloads", "no workload is where they should be");
	return l.failed ? CLI_FAILED : CLI_OK;
}

int cmd_workloads(int argc, char **argv)
{
	struct bench_workload *w;
	bool json = false;
	int c;

	while ((c = cli_getopt(argc, argv, ":h", longs)) != -1) {
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
	if (json) {
		print_json(w);
		putchar('\n');
	} else {
		fputs(w->yaml, stdout);
	}
	bench_workload_free(w);
	return CLI_OK;
}
