/* shoal verify: read catalogs whole, and say what is damaged, or no longer true. */
#include <errno.h>
#include <inttypes.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal verify FILE... [--json] [--verbose]\n"
	"       shoal verify --storage FILE... [OPTION]...\n"
	"\n"
	"Check all of each catalog: checksums, sort order, totals, digest. Quiet when all are good;\n"
	"one line for each that is not, with the section and the offset, and exit status 1.\n"
	"\n"
	"  -v, --verbose       say what is good, too\n"
	"      --json          print a list of {\"file\", \"good\", \"damage\"}\n"
	"      --storage       compare each with what is there now, too. Prints a line for each file that\n"
	"                      is missing, new, or has another size (with both sizes), or another ETag\n"
	"                      where the catalog has some (index --etags), and exits with 1 if there is\n"
	"                      one; --json has the counts only\n"
	"      --where DIR     look there instead of at the catalog's root\n"
	"      --memory SIZE   use at most this much memory (default 256M)\n"
	"      --tmp-dir DIR   put temporary files there (default: $TMPDIR, or /tmp)\n"
	"      --threads N     list with N threads\n"
	"      --keep-going    take what cannot be read as missing, with a warning\n"
	"  -q, --quiet         print no differences and no progress\n" CLI_S3_USAGE;

enum {
	OPT_JSON = 256,
	OPT_STORAGE,
	OPT_WHERE,
	OPT_MEMORY,
	OPT_TMP_DIR,
	OPT_THREADS,
	OPT_KEEP_GOING
};

static const struct option longs[] = {
	{ "json", no_argument, NULL, OPT_JSON },
	{ "verbose", no_argument, NULL, 'v' },
	{ "storage", no_argument, NULL, OPT_STORAGE },
	{ "where", required_argument, NULL, OPT_WHERE },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "tmp-dir", required_argument, NULL, OPT_TMP_DIR },
	{ "threads", required_argument, NULL, OPT_THREADS },
	{ "keep-going", no_argument, NULL, OPT_KEEP_GOING },
	{ "quiet", no_argument, NULL, 'q' },
	CLI_S3_OPTIONS,
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

struct arguments {
	bool verbose, json, storage, quiet;
	const char *storage_only; /* an option that was given and needs --storage */
	struct shoal_compare_options compare;
	struct cli_progress progress;
};

/* What is found out about one catalog. */
struct finding {
	bool good; /* nothing is damaged, and nothing differs */
	bool compared;
	struct shoal_err err; /* of a catalog that is damaged, or could not be compared */
	struct shoal_catalog_info info;
	struct shoal_compare_result result;
};

/* ---- Options ---- */

static bool take_storage_option(int c, struct arguments *a)
{
	uint64_t nr;

	switch (c) {
	case OPT_WHERE:
		a->storage_only = "--where";
		a->compare.where = optarg;
		return true;
	case OPT_MEMORY:
		a->storage_only = "--memory";
		if (!cli_size("verify", "--memory", &a->compare.memory))
			return false;
		if (a->compare.memory < SHOAL_INDEX_MEMORY_MIN)
			cli_usage("verify", "--memory must be 48M or more");
		return a->compare.memory >= SHOAL_INDEX_MEMORY_MIN;
	case OPT_TMP_DIR:
		a->storage_only = "--tmp-dir";
		a->compare.tmp_dir = optarg;
		return true;
	case OPT_KEEP_GOING:
		a->storage_only = "--keep-going";
		return a->compare.keep_going = true;
	case OPT_THREADS:
		a->storage_only = "--threads";
		if (!cli_threads("verify", &nr))
			return false;
		a->compare.nr_threads = (unsigned)nr;
		return true;
	default:
		return false;
	}
}

static bool take_option(int c, struct arguments *a)
{
	switch (c) {
	case 'v':
		return a->verbose = true;
	case 'q':
		return a->quiet = true;
	case OPT_JSON:
		return a->json = true;
	case OPT_STORAGE:
		return a->storage = true;
	default:
		return take_storage_option(c, a);
	}
}

/* ---- Looking ---- */

static int print_difference(void *self, enum shoal_difference what, const char *name, size_t len,
			    uint64_t was, uint64_t is)
{
	const struct arguments *a = self;

	if (a->json || a->quiet)
		return 0;
	fputs(what == SHOAL_MISSING   ? "missing\t"
	      : what == SHOAL_NEW     ? "new\t"
	      : what == SHOAL_CHANGED ? "changed\t"
				      : "resized\t",
	      stdout);
	cli_put_plain(stdout, name, len);
	if (what == SHOAL_RESIZED)
		printf("\t%" PRIu64 "\t%" PRIu64, was, is);
	putchar('\n');
	return ferror(stdout) ? -EIO : 0;
}

static void show_progress(void *self, const struct shoal_index_progress *now)
{
	struct arguments *a = self;

	if (!a->quiet)
		cli_progress_show(&a->progress, now);
}

static void show_warning(void *self, const char *words)
{
	(void)self;
	cli_fail("verify", "%s", words);
}

static int verify_one(struct arguments *a, const char *path, struct finding *f)
{
	struct shoal_catalog *cat = NULL;
	int rc;

	*f = (struct finding){ .good = false };
	rc = cli_open_catalog(path, &cat, &f->err);
	if (rc < 0)
		return rc;
	rc = shoal_catalog_verify(cat, &f->err);
	shoal_catalog_info(cat, &f->info);
	if (rc == 0 && a->storage) {
		cli_progress_start(&a->progress);
		a->compare.catalog = path;
		rc = shoal_catalog_compare(cat, &a->compare, &f->result, &f->err);
		cli_progress_clear(&a->progress);
		f->compared = rc == 0;
	}
	f->good = rc == 0 && f->result.nr_missing + f->result.nr_new + f->result.nr_resized +
					     f->result.nr_changed ==
				     0;
	shoal_catalog_close(cat);
	return rc;
}

/* ---- Telling ---- */

static void print_json(const char *path, const struct finding *f, bool first)
{
	const struct shoal_compare_result *r = &f->result;

	fputs(first ? "[{\"file\": " : ",\n {\"file\": ", stdout);
	cli_json_string(path);
	printf(", \"good\": %s, \"damage\": ", f->good ? "true" : "false");
	if (*f->err.msg)
		cli_json_string(f->err.msg);
	else
		fputs("null", stdout);
	if (f->compared)
		printf(", \"storage\": {\"same\": %" PRIu64 ", \"missing\": %" PRIu64
		       ", \"new\": %" PRIu64 ", \"resized\": %" PRIu64,
		       r->nr_same, r->nr_missing, r->nr_new, r->nr_resized);
	if (f->compared && f->info.etags)
		printf(", \"changed\": %" PRIu64, r->nr_changed);
	fputs(f->compared ? "}}" : "}", stdout);
}

static void print_words(const struct arguments *a, const char *path, const struct finding *f)
{
	const struct shoal_compare_result *r = &f->result;
	char changed[64] = "";

	if (f->info.etags)
		snprintf(changed, sizeof(changed), "%" PRIu64 " of another ETag, ", r->nr_changed);
	if (ferror(stdout)) /* which cli_finish() tells */
		return;
	if (*f->err.msg)
		cli_fail("verify", "'%s': %s", path, f->err.msg);
	else if (!f->good)
		cli_fail("verify",
			 "'%s' is not what is there now: %" PRIu64 " missing, %" PRIu64
			 " new, %" PRIu64 " of another size, %s%" PRIu64 " as they were",
			 path, r->nr_missing, r->nr_new, r->nr_resized, changed, r->nr_same);
	else if (a->verbose && !a->json)
		printf("%s: good, %" PRIu64 " file%s%s, digest %s\n", path, f->info.nr_files,
		       shoal_plural(f->info.nr_files), f->compared ? ", all there" : "",
		       f->info.digest);
}

int cmd_verify(int argc, char **argv)
{
	struct arguments a = { .verbose = false };
	bool all_good = true;
	int c, rc = 0;

	while ((c = cli_getopt(argc, argv, ":vqh", longs)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!take_option(c, &a))
			return CLI_USAGE;
	}
	if (optind == argc)
		return cli_usage("verify", "give at least one catalog");
	if (a.storage_only && !a.storage)
		return cli_usage("verify", "%s is for --storage", a.storage_only);
	a.compare.stop = &cli_stop;
	a.compare.differs = print_difference;
	a.compare.progress = show_progress;
	a.compare.warn = show_warning;
	a.compare.self = &a;
	if (a.storage)
		cli_catch_signals();
	for (int i = optind; i < argc && rc != -ECANCELED; i++) {
		struct finding f; /* every bad file, not only the first */

		rc = verify_one(&a, argv[i], &f);
		all_good &= f.good;
		if (a.json)
			print_json(argv[i], &f, i == optind);
		print_words(&a, argv[i], &f);
	}
	if (a.json)
		puts("]");
	if (rc == -ECANCELED)
		cli_die_of_signal();
	return all_good ? CLI_OK : CLI_FAILED;
}
