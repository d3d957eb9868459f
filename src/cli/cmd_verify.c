/* shoal verify: read whole catalogs, and report what is damaged or out of date. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "catalog/writer.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "shoal.h"

struct cmd_verify_arguments {
	struct cli_where where;
	bool json, storage;
	uint64_t nr_files;        /* of the catalog that is compared */
	const char *storage_only; /* the last given of the options for --storage */
	struct shoal_compare_options compare;
	struct cli_progress progress;
};

/* What is known about one catalog. */
struct finding {
	bool good; /* nothing is damaged, and nothing differs */
	bool compared;
	struct shoal_err
		err; /* message about a catalog that is damaged, or could not be compared */
	struct shoal_catalog_info info;
	struct shoal_compare_result result;
};

/* ---- Looking ---- */

static int print_difference(void *self, enum shoal_difference what, const char *name, size_t len,
			    uint64_t was, uint64_t is)
{
	const struct cmd_verify_arguments *a = self;

	if (a->json || cli_talk.quiet)
		return 0;
	fputs(what == SHOAL_MISSING   ? "missing\t"
	      : what == SHOAL_NEW     ? "new\t"
	      : what == SHOAL_CHANGED ? "changed\t"
	      : what == SHOAL_INSIDE  ? "inside\t"
				      : "resized\t",
	      stdout);
	cli_put_plain(stdout, name, len);
	if (what == SHOAL_RESIZED)
		printf("\t%" PRIu64 "\t%" PRIu64, was, is);
	putchar('\n');
	return cli_output_failed() ? -EIO : 0;
}

static void cmd_verify_show_progress(void *self, const struct shoal_index_progress *now)
{
	struct cmd_verify_arguments *a = self;

	cli_progress_show_index(&a->progress, now, a->nr_files);
}

static void cmd_verify_show_names(void *self, uint64_t nr_names)
{
	struct cmd_verify_arguments *a = self;

	cli_progress_show(&a->progress, &(struct cli_step){ .what = "names checked",
							    .done = nr_names,
							    .total = a->nr_files });
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
		cli_flush_output();
		cli_release_signals();
	}
	shoal_catalog_info(cat, &f->info);
	a->nr_files = f->info.nr_files;
	cli_progress_start(&a->progress, "verify", true);
	rc = cli_stop ? -ECANCELED : catalog_verify_with(cat, cmd_verify_show_names, a, &f->err);
	cli_progress_clear(&a->progress);
	if (a->storage)
		cli_catch_signals();
	if (rc == 0 && a->storage) {
		cli_progress_start(&a->progress, "verify", true);
		a->compare.catalog = path;
		rc = shoal_catalog_compare(cat, &a->compare, &f->result, &f->err);
		cli_progress_clear(&a->progress);
		f->compared = rc == 0;
	}
	f->good = rc == 0 && f->result.nr_missing + f->result.nr_new + f->result.nr_resized +
					     f->result.nr_changed + f->result.nr_inside ==
				     0;
	shoal_catalog_close(cat);
	return rc;
}

/* ---- Telling ---- */

static void cmd_verify_print_json(const struct cmd_verify_arguments *a, struct json *j,
				  const char *path, struct finding *f)
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
		if (a->compare.samples)
			json_u64(j, "inside", r->nr_inside);
		json_close_object(j);
	}
	json_close_object(j);
}

static void cmd_verify_print_good(const char *path, const struct finding *f)
{
	struct cli_text text;
	FILE *out = cli_text_open(&text);

	if (!out) /* cli_finish() reports it */
		return;
	fprintf(out, "%s: good, %s file%s%s, digest %s\n", path,
		count_in_words(f->info.nr_files).text, plural(f->info.nr_files),
		f->compared ? ", nothing missing" : "", f->info.digest);
	cli_text_print(&text, out, true, 0);
}

static void print_words(const struct cmd_verify_arguments *a, const char *path, struct finding *f)
{
	const struct shoal_compare_result *r = &f->result;
	char changed[128] = "";

	if (f->info.etags)
		snprintf(changed, sizeof(changed), "%s with another ETag, ",
			 count_in_words(r->nr_changed).text);
	if (a->compare.samples)
		snprintf(changed + strlen(changed), sizeof(changed) - strlen(changed),
			 "%s with other samples inside, ", count_in_words(r->nr_inside).text);
	if (cli_output_failed()) /* cli_finish() reports it */
		return;
	if (*f->err.msg)
		cli_fail("verify", "'%s': %s", path, cli_words("verify", &f->err));
	else if (!f->good)
		cli_fail("verify",
			 "'%s' differs from the storage: %s missing, %s new, %s with another size, "
			 "%s%s unchanged",
			 path, count_in_words(r->nr_missing).text, count_in_words(r->nr_new).text,
			 count_in_words(r->nr_resized).text, changed,
			 count_in_words(r->nr_same).text);
	else if (!cli_talk.quiet && !a->json)
		cmd_verify_print_good(path, f);
}

static int cmd_verify_run(void *arguments, int nr, char **words)
{
	struct cmd_verify_arguments *a = arguments;
	struct json j = cli_json();
	bool all_good = true;
	int rc = 0;

	if (a->storage_only && !a->storage)
		return cli_usage("verify", "--%s is for --storage", a->storage_only);
	a->compare.stop = &cli_stop;
	a->compare.config = &a->where.config;
	a->compare.differs = print_difference;
	a->compare.progress = cmd_verify_show_progress;
	a->compare.warn = cmd_verify_show_warning;
	a->compare.self = a;
	if (a->storage)
		cli_catch_signals();
	if (a->json)
		json_open_array(&j, NULL);
	for (int i = 0; i < nr && rc != -ECANCELED; i++) {
		struct finding f; /* every bad file, not only the first */

		rc = verify_one(a, words[i], &f);
		all_good &= f.good;
		if (a->json)
			cmd_verify_print_json(a, &j, words[i], &f);
		print_words(a, words[i], &f);
	}
	if (a->json)
		json_close_array(&j);
	if (rc == -ECANCELED)
		cli_die_of_signal();
	return all_good ? CLI_OK : CLI_FAILED;
}

#define AT(field) offsetof(struct cmd_verify_arguments, field)

static const struct cli_option options[] = {
	CLI_FLAG(0, "storage", AT(storage),
		 "also compare each catalog with the storage. Prints a line for each file that is "
		 "missing, new, or has another size (with both sizes) or, if the catalog has ETags "
		 "(index --etags), another ETag, and exits with 1 if there is one; --json has only "
		 "the counts"),
	CLI_FLAG(0, "json", AT(json), "print a list of {\"file\", \"good\", \"damage\"}"),
	CLI_END,
};

static const struct cli_option storage_options[] = {
	CLI_TEXT(0, "data", "PLACE", AT(compare.where),
		 "compare with this directory or URI (default: the catalog's root)"),
	CLI_FLAG(0, "extents", AT(compare.samples),
		 "also open each file that is unchanged, and compare where its samples lie "
		 "(index --samples)"),
	CLI_SIZE("memory", AT(compare.memory), SHOAL_INDEX_MEMORY_MIN, 0,
		 "use at most this much memory (default 256M)"),
	CLI_TEXT(0, "tmp-dir", "DIR", AT(compare.tmp_dir),
		 "put temporary files in DIR (default: $TMPDIR, or /tmp)"),
	CLI_COUNT("threads", "THREADS", AT(compare.nr_threads), 1, 1024, "threads that list"),
	CLI_FLAG(0, "keep-going", AT(compare.keep_going),
		 "count what cannot be read as missing, with a warning"),
	CLI_END,
};

const struct cli_command cmd_verify = {
	.name = "verify",
	.summary = "check catalogs for damage, or against the storage",
	.usage = "CATALOG... [OPTION]...\n--storage CATALOG... [OPTION]...",
	.about =
		"Check all of each catalog: checksums, sort order, totals, digest. Prints a line per "
		"catalog: that it is good, or what is damaged, with the section and the offset; then the "
		"exit status is 1.",
	.sections = { { .options = options },
		      { .title = "with --storage",
			.options = storage_options,
			.given = AT(storage_only) },
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.give = "give at least one catalog",
	.size = sizeof(struct cmd_verify_arguments),
	.run = cmd_verify_run,
};
