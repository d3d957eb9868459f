/* shoal list: what is in a directory or a bucket, in order, without a catalog. */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"
#include "store/uri.h"

#define COUNT_EVERY 1024u /* names between two checks of the clock */

struct cmd_list_arguments {
	struct cli_where where;
	struct cli_select select;
	struct cli_format format;
	struct shoal_list_options options;
	bool total;
	bool skipped; /* something could not be listed */
};

static void cmd_list_warn(void *self, const char *words)
{
	__atomic_store_n(&((struct cmd_list_arguments *)self)->skipped, true, __ATOMIC_RELAXED);
	cli_fail("list", "%s", words);
}

static int cmd_list_total(const char *uri, struct shoal_list *list, const struct cli_format *f)
{
	struct shoal_list_totals t = { 0 };
	struct shoal_err err = { "" };
	struct json j = cli_json();
	const struct shoal_entry *e;
	struct cli_progress progress;
	int rc;

	cli_progress_start(&progress, "list", true);
	while ((rc = shoal_list_next(list, &e, &err)) > 0) {
		t.nr_bytes = e->size == SHOAL_SIZE_UNKNOWN ? e->size : t.nr_bytes + e->size;
		if ((++t.nr_files & (COUNT_EVERY - 1)) == 0)
			cli_output_progress(&progress, t.nr_files, 0);
	}
	cli_progress_clear(&progress);
	if (rc < 0)
		return cli_fail("list", "'%s': %s", uri, cli_words("list", &err));
	if (!f->json) {
		printf("%llu", (unsigned long long)t.nr_files);
		if (f->sizes)
			printf("\t%llu", (unsigned long long)t.nr_bytes);
		putchar('\n');
		return CLI_OK;
	}
	json_open_object(&j, NULL);
	json_u64(&j, "files", t.nr_files);
	if (t.nr_bytes == SHOAL_SIZE_UNKNOWN)
		json_null(&j, "bytes");
	else
		json_u64(&j, "bytes", t.nr_bytes);
	json_close_object(&j);
	return CLI_OK;
}

/* Sizes of objects come with their names; those of files are requested only if they are used. */
static bool cmd_list_wants_sizes(const struct cmd_list_arguments *a, const char *uri)
{
	return store_uri_traits(uri).objects || a->format.sizes || a->format.json ||
	       a->format.csv || a->select.select.min_size || a->select.select.max_size;
}

static bool cmd_list_is_file(const char *uri)
{
	const char *path = store_local_path(uri);
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static int cmd_list_run(void *arguments, int nr, char **words)
{
	struct cmd_list_arguments *a = arguments;
	const char *uri = words[0];
	struct shoal_err err = { "" };
	struct shoal_list *list;
	int status = cli_format_check("list", &a->format), rc;

	(void)nr;
	if (status != CLI_OK || cli_s3_check_uri("list", uri) != CLI_OK)
		return CLI_USAGE;
	a->options.select = *cli_select_finish(&a->select);
	a->options.no_sizes = !cmd_list_wants_sizes(a, uri);
	a->options.etags = a->format.etags;
	a->options.config = &a->where.config;
	a->options.stop = &cli_stop;
	a->options.warn = cmd_list_warn;
	a->options.self = a;
	cli_catch_signals();
	if (cmd_list_is_file(uri))
		return cli_end(cli_fail("list",
					"'%s' is a file, not a directory; 'shoal ls' prints the "
					"names in a catalog",
					uri));
	rc = shoal_list_open(uri, &a->options, &list, &err);
	if (rc < 0) /* an unknown kind of store is in the message already */
		return cli_end(cli_fail("list", "'%s': %s%s", uri, cli_words("list", &err),
					rc == -ENOTSUP ? "" : cli_guess_uri(uri).text));
	status = a->total ? cmd_list_total(uri, list, &a->format)
			  : cli_put_list("list", uri, list, &a->format, false);
	shoal_list_close(list);
	return cli_end(status == CLI_OK && a->skipped ? CLI_FAILED : status);
}

#define AT(field) offsetof(struct cmd_list_arguments, field)

static const struct cli_option options[] = {
	CLI_FLAG(0, "total", AT(total), "print only how many there are; with --sizes their bytes"),
	CLI_SHARD(
		AT(options.shard), AT(options.nr_shards),
		"only part K (0 to N - 1) of N disjoint parts: of a bucket an interval of keys, of a "
		"directory the names with that hash"),
	CLI_FLAG(0, "keep-going", AT(options.keep_going),
		 "leave out what cannot be read, with a warning, and continue; the exit "
		 "status is then 1"),
	CLI_FLAG(0, "follow", AT(options.follow),
		 "follow symbolic links (otherwise they are left out)"),
	CLI_FLAG('x', "one-file-system", AT(options.one_fs), "do not go into other file systems"),
	CLI_COUNT("threads", "THREADS", AT(options.nr_threads), 1, 256,
		  "threads, or connections to a bucket, that list ahead (default: 8 to 32)"),
	CLI_TEXT(0, "tmp-dir", "DIR", AT(options.tmp_dir),
		 "sort directories that are too large for memory in DIR (default $TMPDIR or /tmp)"),
	CLI_END,
};

const struct cli_command cmd_list = {
	.name = "list",
	.summary = "print what is in a directory or a bucket, in order",
	.usage = "DIR|URI [OPTION]...",
	.about = "Print the names of all files below a directory, or all objects of a bucket, in "
		 "bytewise order, relative to it. No catalog is made, and memory does not grow "
		 "with the number of names: the first ones are printed at once.",
	.sections = { { .options = options },
		      CLI_SELECT_SECTION(AT(select)),
		      CLI_FORMAT_SECTION(AT(format)),
		      CLI_DIRECTORY_SECTION(AT(where.config)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one directory or URI",
	.size = sizeof(struct cmd_list_arguments),
	.run = cmd_list_run,
};
