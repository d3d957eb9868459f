/* shoal verify: read whole catalogs, and report what is damaged or out of date. */
#include <errno.h>
#include <inttypes.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "shoal.h"

static const char usage[] =
	"usage: shoal verify FILE... [--json] [--verbose]\n"
	"       shoal verify --storage FILE... [OPTION]...\n"
	"\n"
	"Check all of each catalog: checksums, sort order, totals, digest. Quiet if all are good;\n"
	"otherwise one line per damaged catalog, with the section and the offset, and exit status 1.\n"
	"\n"
	"  -v, --verbose       also report good catalogs\n"
	"      --json          print a list of {\"file\", \"good\", \"damage\"}\n"
	"      --storage       also compare each with the storage. Prints a line for each file that is\n"
	"                      missing, new, or has another size (with both sizes) or, if the catalog\n"
	"                      has ETags (index --etags), another ETag, and exits with 1 if there is\n"
	"                      one; --json has only the counts\n"
	"      --where DIR     compare with this directory instead of the catalog's root\n"
	"      --memory SIZE   use at most this much memory (default 256M)\n"
	"      --tmp-dir DIR   put temporary files there (default: $TMPDIR, or /tmp)\n"
	"      --threads N     list with N threads\n"
	"      --keep-going    count what cannot be read as missing, with a warning\n"
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

struct cmd_verify_arguments {
	struct cli_where where;
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

static bool take_storage_option(int c, struct cmd_verify_arguments *a)
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

static bool cmd_verify_option(int c, struct cmd_verify_arguments *a)
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
	const struct cmd_verify_arguments *a = self;

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

static void cmd_verify_show_progress(void *self, const struct shoal_index_progress *now)
{
	struct cmd_verify_arguments *a = self;

	if (!a->quiet)
		cli_progress_show(&a->progress, now);
}

static void cmd_verify_show_warning(void *self, const char *words)
{
	(void)self;
	cli_fail("verify", "%s", words);
}

static int verify_one(struct cmd_verify_arguments *a, const char *path, struct finding *f)
{
	struct shoal_catalog *cat = NULL;
	int rc;

	*f = (struct finding){ .good = false };
	rc = cli_open_catalog(path, &a->where, &cat, &f->err);
	if (rc < 0)
		return rc;
	if (a->storage) { /* nothing to clean up: a signal may end it at once, as without --storage
			   */
		fflush(stdout);
		cli_release_signals();
	}
	rc = cli_stop ? -ECANCELED : shoal_catalog_verify(cat, &f->err);
	if (a->storage)
		cli_catch_signals();
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

static void cmd_verify_print_json(struct json *j, const char *path, struct finding *f)
{
	const struct shoal_compare_result *r = &f->result;

	json_open_object(j, NULL);
	json_string(j, "file", path);
	json_bool(j, "good", f->good);
	json_string(j, "damage", *f->err.msg ? cli_words("verify", &f->err) : NULL);
	if (f->compared) {
		json_open_object(j, "storage");
		json_u64(j, "same", r->nr_same);
		json_u64(j, "missing", r->nr_missing);
		json_u64(j, "new", r->nr_new);
		json_u64(j, "resized", r->nr_resized);
		if (f->info.etags)
			json_u64(j, "changed", r->nr_changed);
		json_close_object(j);
	}
	json_close_object(j);
}

static void print_words(const struct cmd_verify_arguments *a, const char *path, struct finding *f)
{
	const struct shoal_compare_result *r = &f->result;
	char changed[64] = "";

	if (f->info.etags)
		snprintf(changed, sizeof(changed), "%" PRIu64 " with another ETag, ",
			 r->nr_changed);
	if (ferror(stdout)) /* which cli_finish() tells */
		return;
	if (*f->err.msg)
		cli_fail("verify", "'%s': %s", path, cli_words("verify", &f->err));
	else if (!f->good)
		cli_fail("verify",
			 "'%s' differs from the storage: %" PRIu64 " missing, %" PRIu64
			 " new, %" PRIu64 " with another size, %s%" PRIu64 " unchanged",
			 path, r->nr_missing, r->nr_new, r->nr_resized, changed, r->nr_same);
	else if (a->verbose && !a->json)
		printf("%s: good, %" PRIu64 " file%s%s, digest %s\n", path, f->info.nr_files,
		       plural(f->info.nr_files), f->compared ? ", all there" : "", f->info.digest);
}

int cmd_verify(int argc, char **argv)
{
	struct cmd_verify_arguments a = { .verbose = false };
	struct json j = cli_json();
	bool all_good = true;
	int c, rc = 0;

	while ((c = cli_getopt(argc, argv, ":vqh", longs, &a.where)) != -1) {
		if (c == 'h')
			return fputs(usage, stdout) < 0 ? CLI_FAILED : CLI_OK;
		if (!cmd_verify_option(c, &a))
			return CLI_USAGE;
	}
	if (optind == argc)
		return cli_usage("verify", "give at least one catalog");
	if (a.storage_only && !a.storage)
		return cli_usage("verify", "%s is for --storage", a.storage_only);
	a.compare.stop = &cli_stop;
	a.compare.config = &a.where.config;
	a.compare.differs = print_difference;
	a.compare.progress = cmd_verify_show_progress;
	a.compare.warn = cmd_verify_show_warning;
	a.compare.self = &a;
	if (a.storage)
		cli_catch_signals();
	if (a.json)
		json_open_array(&j, NULL);
	for (int i = optind; i < argc && rc != -ECANCELED; i++) {
		struct finding f; /* every bad file, not only the first */

		rc = verify_one(&a, argv[i], &f);
		all_good &= f.good;
		if (a.json)
			cmd_verify_print_json(&j, argv[i], &f);
		print_words(&a, argv[i], &f);
	}
	if (a.json)
		json_close_array(&j);
	if (rc == -ECANCELED)
		cli_die_of_signal();
	return all_good ? CLI_OK : CLI_FAILED;
}
