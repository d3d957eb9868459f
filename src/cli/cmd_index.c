/* shoal index: a list of names, or a pattern, becomes a catalog. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal index LIST -o FILE [OPTION]...\n"
	"       shoal index --pattern PATTERN --count N [--subfolders K] -o FILE [OPTION]...\n"
	"\n"
	"Make a catalog. LIST is a file with a name on each line, or - for standard input; after a tab a\n"
	"line may give the file's size in bytes, after another its number of samples. Names come in any\n"
	"order; of repeated ones the last counts. PATTERN is a name with one number, {:07d} or {}.\n"
	"\n"
	"  -o, --output FILE          write the catalog here\n"
	"  -0, --null                 names in LIST are ended by NUL bytes, not line ends\n"
	"      --names-only           a tab is part of the name\n"
	"      --root URI             what names are relative to: a URI or a path (default: the first\n"
	"                             name's root if it is absolute, else the current directory)\n"
	"      --samples-per-file N   every file holds N samples (default 1)\n"
	"      --memory SIZE          use at most this much memory (default 256M)\n"
	"      --tmp-dir DIR          put temporary files there (default: beside the catalog)\n"
	"      --pattern PATTERN      names as 'train/img_{:07d}_of_1170301.jpeg' makes them\n"
	"      --count N              with --pattern: how many, from 0 on\n"
	"      --first N              with --pattern: the first number (default 0)\n"
	"      --subfolders K         with --pattern: file i lies in folder i mod K\n"
	"      --size SIZE            with --pattern: every file's size\n"
	"      --json                 print the result as JSON\n"
	"  -q, --quiet                print nothing but errors\n";

enum {
	OPT_NAMES_ONLY = 256,
	OPT_ROOT,
	OPT_SAMPLES,
	OPT_MEMORY,
	OPT_TMP_DIR,
	OPT_PATTERN,
	OPT_COUNT,
	OPT_FIRST,
	OPT_SUBFOLDERS,
	OPT_SIZE,
	OPT_JSON,
};

static const struct option longs[] = {
	{ "output", required_argument, NULL, 'o' },
	{ "null", no_argument, NULL, '0' },
	{ "names-only", no_argument, NULL, OPT_NAMES_ONLY },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "samples-per-file", required_argument, NULL, OPT_SAMPLES },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "tmp-dir", required_argument, NULL, OPT_TMP_DIR },
	{ "pattern", required_argument, NULL, OPT_PATTERN },
	{ "count", required_argument, NULL, OPT_COUNT },
	{ "first", required_argument, NULL, OPT_FIRST },
	{ "subfolders", required_argument, NULL, OPT_SUBFOLDERS },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, 'q' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct arguments {
	struct shoal_index_options options;
	struct shoal_pattern pattern;
	const char *list;
	bool null, names_only, json, quiet, list_only, pattern_only;
	bool count_given, samples_given, memory_given;
};

static bool take_option(int c, struct arguments *a)
{
	switch (c) {
	case 'o':
		a->options.output = optarg;
		return true;
	case '0':
		return a->null = a->list_only = true;
	case 'q':
		return a->quiet = true;
	case OPT_NAMES_ONLY:
		return a->names_only = a->list_only = true;
	case OPT_ROOT:
		a->options.root = optarg;
		return true;
	case OPT_SAMPLES:
		a->samples_given = true;
		return cli_number("index", "--samples-per-file", &a->options.samples_per_file);
	case OPT_MEMORY:
		a->memory_given = true;
		return cli_size("index", "--memory", &a->options.memory);
	case OPT_TMP_DIR:
		a->options.tmp_dir = optarg;
		return true;
	case OPT_PATTERN:
		a->pattern.format = optarg;
		return true;
	case OPT_COUNT:
		a->count_given = a->pattern_only = true;
		return cli_number("index", "--count", &a->pattern.count);
	case OPT_FIRST:
		a->pattern_only = true;
		return cli_number("index", "--first", &a->pattern.first);
	case OPT_SUBFOLDERS:
		a->pattern_only = true;
		return cli_number("index", "--subfolders", &a->pattern.subfolders);
	case OPT_SIZE:
		a->pattern_only = true;
		if (!cli_size("index", "--size", &a->pattern.size))
			return false;
		if (a->pattern.size == SHOAL_SIZE_UNKNOWN)
			cli_usage("index", "--size '%s' is too large", optarg);
		return a->pattern.size != SHOAL_SIZE_UNKNOWN;
	case OPT_JSON:
		return a->json = true;
	default:
		return false;
	}
}

/* CLI_OK when the arguments make sense together. */
static int check(const struct arguments *a, int nr_lists)
{
	if (!a->options.output)
		return cli_usage("index", "say where to write the catalog: -o FILE");
	if (strcmp(a->options.output, "-") == 0)
		return cli_usage("index",
				 "a catalog cannot be written to standard output: -o FILE");
	if (a->pattern.format && nr_lists > 0)
		return cli_usage("index", "give a LIST or a --pattern, not both");
	if (!a->pattern.format && nr_lists != 1)
		return cli_usage("index", "give one LIST (- is standard input), or a --pattern");
	if (a->pattern.format && !a->count_given)
		return cli_usage("index", "say how many names the pattern makes: --count N");
	if (a->pattern.format && a->list_only)
		return cli_usage("index", "-0 and --names-only are for a LIST, not for --pattern");
	if (!a->pattern.format && a->pattern_only)
		return cli_usage("index",
				 "--count, --first, --subfolders and --size are for --pattern");
	if (a->samples_given && a->options.samples_per_file == 0)
		return cli_usage("index", "--samples-per-file must be 1 or more");
	if (a->memory_given && a->options.memory < SHOAL_INDEX_MEMORY_MIN)
		return cli_usage("index", "--memory must be 48M or more");
	return CLI_OK;
}

/* A line that is overwritten on a terminal, and a new one every few seconds elsewhere. */
struct progress {
	double start, shown;
	bool terminal;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show_progress(void *self, uint64_t nr_names)
{
	struct progress *p = self;
	double t = now();

	if (t - p->shown < (p->terminal ? 0.2 : 5.0))
		return;
	p->shown = t;
	fprintf(stderr, "%s%" PRIu64 " names, %.1f million a second%s", p->terminal ? "\r" : "",
		nr_names, (double)nr_names / (t - p->start) * 1e-6, p->terminal ? "   " : "\n");
}

static int open_list(const char *path, const char *output)
{
	struct stat st, out;
	int fd;

	if (strcmp(path, "-") == 0)
		return STDIN_FILENO;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		cli_fail("index", "'%s': cannot open the list: %s", path, strerror(errno));
		return -1;
	}
	if (fstat(fd, &st) < 0)
		cli_fail("index", "'%s': cannot stat it: %s", path, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		cli_fail("index",
			 "'%s' is a directory: give a list, such as find '%s' -type f makes", path,
			 path);
	else if (output && stat(output, &out) == 0 && out.st_ino == st.st_ino &&
		 out.st_dev == st.st_dev)
		cli_fail("index", "'%s' is both the list and the catalog to write", path);
	else
		return fd;
	close(fd);
	return -1;
}

static int run(struct arguments *a, struct shoal_index_result *result, struct shoal_err *err)
{
	int fd, rc;

	if (a->pattern.format)
		return shoal_index_pattern(&a->pattern, &a->options, result, err);
	fd = open_list(a->list, a->options.output);
	if (fd < 0)
		return -ENODATA; /* said already */
	rc = shoal_index_list(fd, a->null ? '\0' : '\n', a->names_only, &a->options, result, err);
	if (fd != STDIN_FILENO)
		close(fd);
	return rc;
}

static void print_result(const struct arguments *a, const struct shoal_index_result *r,
			 double seconds)
{
	if (a->json)
		printf("{\"files\": %" PRIu64 ", \"repeated\": %" PRIu64 ", \"blank\": %" PRIu64
		       ", \"seconds\": %.3f}\n",
		       r->nr_names, r->nr_repeated, r->nr_blank, seconds);
	if (a->quiet)
		return;
	fprintf(stderr, "%" PRIu64 " names in %.2f s", r->nr_names, seconds);
	if (r->nr_repeated)
		fprintf(stderr, ", %" PRIu64 " repeated ones dropped", r->nr_repeated);
	if (r->nr_blank)
		fprintf(stderr, ", %" PRIu64 " blank lines", r->nr_blank);
	fputc('\n', stderr);
}

int cmd_index(int argc, char **argv)
{
	struct progress progress = { .start = now(), .terminal = isatty(STDERR_FILENO) };
	struct arguments a = { .options.stop = &cli_stop, .pattern.size = SHOAL_SIZE_UNKNOWN };
	struct shoal_index_result result = { 0 };
	struct shoal_err err = { "" };
	int c, rc;

	while ((c = cli_getopt(argc, argv, ":o:0qh", longs)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!take_option(c, &a))
			return CLI_USAGE;
	}
	rc = check(&a, argc - optind);
	if (rc != CLI_OK)
		return rc;
	a.list = argv[optind];
	progress.shown = progress.start;
	if (!a.quiet) {
		a.options.progress = show_progress;
		a.options.progress_self = &progress;
	}
	cli_catch_signals();
	rc = run(&a, &result, &err);
	if (progress.terminal && progress.shown > progress.start)
		fputs("\r\033[K", stderr);
	if (rc == -ECANCELED) {
		cli_fail("index", "interrupted: nothing was written");
		cli_die_of_signal();
	}
	if (rc == -EINVAL && a.pattern.format)
		return cli_usage("index", "%s", err.msg);
	if (rc < 0 && *err.msg)
		cli_fail("index", "%s%s%s%s", a.list ? "'" : "", a.list ? a.list : "",
			 a.list ? "': " : "", err.msg);
	if (rc < 0)
		return CLI_FAILED;
	print_result(&a, &result, now() - progress.start);
	return CLI_OK;
}
