/* shoal stat: figures about a dataset. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "cli/select_options.h"

struct cmd_stat_arguments {
	struct cli_where where;
	struct cli_select select;
	uint64_t top;
	unsigned depth;
	bool json;
};

/* ---- Text ---- */

static void put_rows(const char *title, const struct shoal_stat_row *rows, size_t nr, uint64_t all,
		     bool sizes, const char *none)
{
	printf("\n%s\n", title);
	for (size_t i = 0; i < nr; i++) {
		printf("%14s  ", count_in_words(rows[i].nr_files).text);
		if (sizes)
			printf("%11s  ", size_in_words(rows[i].nr_bytes).text);
		if (*rows[i].name)
			cli_put_plain(stdout, rows[i].name, strlen(rows[i].name));
		else
			fputs(none, stdout);
		putchar('\n');
	}
	if (all > nr)
		printf("%14s  %s more\n", "", count_in_words(all - nr).text);
}

static void put_largest(const struct shoal_stat *s, size_t nr)
{
	printf("\nlargest files\n");
	for (size_t i = 0; i < nr && i < s->nr_largest; i++) {
		printf("%11s  ", size_in_words(s->largest[i].nr_bytes).text);
		cli_put_plain(stdout, s->largest[i].name, strlen(s->largest[i].name));
		putchar('\n');
	}
}

#define BAR_LEN 40u

/* How long bars may be: what is beside them takes 36 columns. */
static unsigned bar_len(void)
{
	size_t columns = isatty(STDOUT_FILENO) ? cli_columns(STDOUT_FILENO) : 80;

	return columns >= BAR_LEN + 37 ? BAR_LEN : columns > 38 ? (unsigned)columns - 37 : 1;
}

static void put_histogram(const struct shoal_stat *s)
{
	unsigned longest = bar_len();
	uint64_t most = 1;

	for (unsigned i = 0; i < ARRAY_LEN(s->sizes); i++)
		most = u64_max(most, s->sizes[i]);
	printf("\nsizes\n");
	for (unsigned i = 0; i < ARRAY_LEN(s->sizes); i++) {
		unsigned bar = (unsigned)((double)s->sizes[i] / (double)most * longest + 0.5);

		if (s->sizes[i] == 0)
			continue;
		printf("  from %-10s  %14s  %.*s\n",
		       size_in_words(i ? UINT64_C(1) << (i - 1) : 0).text,
		       count_in_words(s->sizes[i]).text, (int)u64_max(bar, 1),
		       "########################################");
	}
}

static void put_text(const struct cmd_stat_arguments *a, const struct shoal_stat *s)
{
	bool sizes = s->totals.nr_bytes != SHOAL_SIZE_UNKNOWN;
	size_t top = (size_t)a->top;

	printf("files           %s\n", count_in_words(s->totals.nr_files).text);
	printf("samples         %s\n", count_in_words(s->totals.nr_samples).text);
	if (sizes) {
		cli_put_bytes(stdout, "bytes           ", s->totals.nr_bytes);
		cli_put_bytes(stdout, "smallest        ", s->min_size);
		cli_put_bytes(stdout, "largest         ", s->max_size);
	}
	printf("folders         %s\n", count_in_words(s->nr_folders).text);
	printf("extensions      %s%s\n", count_in_words(s->nr_extensions).text,
	       s->nr_other_extensions ? " or more" : "");
	printf("depth           %" PRIu64 "\nlongest name    %" PRIu64 "\n", s->max_depth,
	       s->longest_name);
	if (s->totals.nr_files == 0)
		return;
	put_rows("folders: files, bytes", s->folder, (size_t)u64_min(top, s->nr_folder_rows),
		 s->nr_folders, sizes, "(in no folder)");
	put_rows("extensions: files, bytes", s->extension,
		 (size_t)u64_min(top, s->nr_extension_rows), s->nr_extensions, sizes, "(none)");
	if (!sizes)
		return;
	put_largest(s, top);
	put_histogram(s);
}

/* ---- JSON ---- */

static void put_json_rows(struct json *j, const char *key, const struct shoal_stat_row *rows,
			  size_t nr, bool sizes)
{
	json_open_array(j, key);
	for (size_t i = 0; i < nr; i++) {
		json_open_object(j, NULL);
		json_string(j, "name", rows[i].name);
		json_u64(j, "files", rows[i].nr_files);
		if (sizes)
			json_u64(j, "bytes", rows[i].nr_bytes);
		json_close_object(j);
	}
	json_close_array(j);
}

static void put_json_histogram(struct json *j, const struct shoal_stat *s)
{
	json_open_array(j, "sizes");
	for (unsigned i = 0; i < ARRAY_LEN(s->sizes); i++) {
		if (s->sizes[i] == 0)
			continue;
		json_open_object(j, NULL);
		json_u64(j, "from", i ? UINT64_C(1) << (i - 1) : 0);
		json_u64(j, "files", s->sizes[i]);
		json_u64(j, "bytes", s->bytes[i]);
		json_close_object(j);
	}
	json_close_array(j);
}

static void cmd_stat_put_json(const struct cmd_stat_arguments *a, const struct shoal_stat *s)
{
	bool sizes = s->totals.nr_bytes != SHOAL_SIZE_UNKNOWN;
	size_t top = (size_t)a->top;
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_u64(&j, "files", s->totals.nr_files);
	json_u64(&j, "samples", s->totals.nr_samples);
	if (sizes) {
		json_u64(&j, "bytes", s->totals.nr_bytes);
		json_u64(&j, "min_size", s->min_size);
		json_u64(&j, "max_size", s->max_size);
	} else {
		json_null(&j, "bytes");
	}
	json_u64(&j, "nr_folders", s->nr_folders);
	json_u64(&j, "nr_extensions", s->nr_extensions);
	json_u64(&j, "longest_name", s->longest_name);
	put_json_rows(&j, "folders", s->folder, (size_t)u64_min(top, s->nr_folder_rows), sizes);
	put_json_rows(&j, "extensions", s->extension, (size_t)u64_min(top, s->nr_extension_rows),
		      sizes);
	put_json_rows(&j, "largest", s->largest, (size_t)u64_min(top, s->nr_largest), sizes);
	put_json_histogram(&j, s);
	json_open_array(&j, "depth");
	for (unsigned i = 0; i <= s->max_depth && i < SHOAL_STAT_DEPTH; i++)
		json_u64(&j, NULL, s->depth[i]);
	json_close_array(&j);
	json_close_object(&j);
}

/* ---- Progress ---- */

struct cmd_stat_show {
	struct cli_progress progress;
	const struct shoal_list *list;
	uint64_t nr_all; /* names of the catalog */
};

static int cmd_stat_show(void *self)
{
	struct cmd_stat_show *s = self;

	cli_output_progress(&s->progress, shoal_list_nr_steps(s->list), s->nr_all);
	return 0;
}

static int cmd_stat_count(const struct cmd_stat_arguments *a, struct shoal_list *list,
			  struct shoal_stat *ret_stat, struct shoal_err *err)
{
	struct cmd_stat_show show = { .list = list };
	struct shoal_list_info info;
	int rc;

	shoal_list_info(list, &info);
	show.nr_all = info.nr_files;
	cli_progress_start(&show.progress, "stat", true);
	shoal_list_set_waiting(list, cmd_stat_show, &show);
	rc = shoal_list_stat(list, a->depth, ret_stat, err);
	cli_progress_clear(&show.progress);
	return rc;
}

static int cmd_stat_run(void *arguments, int nr, char **words)
{
	struct cmd_stat_arguments *a = arguments;
	struct shoal_catalog *cat = cli_open("stat", words[0], &a->where);
	struct shoal_stat *stat = calloc(1, sizeof(*stat));
	struct shoal_list *list = NULL;
	struct shoal_err err = { "" };
	int rc = -ENOMEM;

	(void)nr;
	if (cat && stat)
		rc = shoal_list_catalog(cat, cli_select_finish(&a->select), &list, &err);
	if (rc == 0)
		rc = cmd_stat_count(a, list, stat, &err);
	if (rc < 0 && cat)
		cli_fail("stat", "'%s': %s", words[0], cli_words("stat", &err));
	if (rc == 0 && a->json)
		cmd_stat_put_json(a, stat);
	else if (rc == 0)
		put_text(a, stat);
	if (rc == 0)
		shoal_stat_release(stat);
	free(stat);
	shoal_list_close(list);
	shoal_catalog_close(cat);
	return rc == 0 ? CLI_OK : CLI_FAILED;
}

static void cmd_stat_defaults(void *arguments)
{
	((struct cmd_stat_arguments *)arguments)->top = 10;
}

#define AT(field) offsetof(struct cmd_stat_arguments, field)

static const struct cli_option options[] = {
	CLI_COUNT("depth", "PARTS", AT(depth), 1, 64,
		  "components of the path that make a folder (default 1)"),
	CLI_NUMBER("top", "ROWS", AT(top), 1, SHOAL_STAT_TOP,
		   "folders, extensions and files to print (default 10)"),
	CLI_JSON(AT(json)),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

const struct cli_command cmd_stat = {
	.name = "stat",
	.summary = "print totals by folder, extension and size",
	.usage = "CATALOG [OPTION]...",
	.about =
		"Print figures about the files of a catalog: totals, the folders, extensions and "
		"files with the most bytes, and how many files there are of each size. Memory does "
		"not grow with the number of files.",
	.sections = { { .options = options },
		      CLI_SELECT_SECTION(AT(select)),
		      CLI_S3_SECTION(AT(where.config)) },
	.min = 1,
	.max = 1,
	.give = "give one catalog",
	.size = sizeof(struct cmd_stat_arguments),
	.set_defaults = cmd_stat_defaults,
	.run = cmd_stat_run,
};
