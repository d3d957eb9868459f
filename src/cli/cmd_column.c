/* shoal column: make, sort, check and describe columns, one number per sample. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "catalog/sidecar_format.h"
#include "catalog/sidecar_writer.h"
#include "cli/cli.h"
#include "cli/column.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/s3_options.h"
#include "open/output.h"
#include "store/uri.h"

int cmd_column_failed(const char *path, struct shoal_err *err)
{
	return cli_fail("column", "'%s': %s", path, cli_words("column", err));
}

size_t cmd_column_width_of(enum shoal_column_type type)
{
	static const uint8_t width[] = {
		[SHOAL_BIT] = 1, [SHOAL_U8] = 1,  [SHOAL_U16] = 2, [SHOAL_U32] = 4,
		[SHOAL_U64] = 8, [SHOAL_I64] = 8, [SHOAL_F32] = 4, [SHOAL_F64] = 8
	};

	return width[type];
}

/* ---- Writing ---------------------------------------------------------------------------- */

/* A hidden name beside the output. */
static int name_unsorted(struct cmd_column_arguments *a)
{
	int dir_len = (int)(path_base(a->output) - a->output);
	int n = asprintf(&a->unsorted, "%.*s.%s.unsorted", dir_len, a->output, a->output + dir_len);

	if (n < 0)
		a->unsorted = NULL;
	return n < 0 ? -ENOMEM : 0;
}

int cmd_column_begin(struct cmd_column_arguments *a, const char *default_name,
		     enum shoal_column_type default_type)
{
	struct shoal_column_options o = { .nr_samples = a->info.nr_samples,
					  .nr = a->info.nr_samples,
					  .digest = a->info.digest };
	struct shoal_err err = { "" };

	if (!a->name)
		a->name = default_name;
	if (!a->type)
		a->type = default_type;
	if (!a->output && asprintf(&a->default_output, "%s.%s.col", a->catalog_path, a->name) < 0)
		return cli_fail("column", "out of memory");
	if (!a->output)
		a->output = a->default_output;
	if (cli_keep_foreign("column", a->output, "a column", SIDE_MAGIC, a->force) != CLI_OK)
		return CLI_FAILED;
	if ((a->sort || a->keep) && name_unsorted(a) < 0)
		return cli_fail("column", "out of memory");
	cli_progress_start(&a->progress, "column", true);
	o.name = a->name;
	o.type = a->type;
	if (!a->dry_run &&
	    shoal_column_create(a->unsorted ? a->unsorted : a->output, &o, &a->writer, &err) < 0)
		return cmd_column_failed(a->output, &err);
	return CLI_OK;
}

int cmd_column_store(const struct cmd_column_arguments *a, const struct import_number *n,
		     uint8_t *values, uint64_t i, const char *path, const char *what,
		     uint64_t where)
{
	if (import_number_store(n, a->type, values + i * cmd_column_width_of(a->type)) == 0)
		return CLI_OK;
	return cli_fail("column",
			"'%s', %s %" PRIu64 ": the number does not fit type %s: use --type", path,
			what, where, shoal_column_type_name(a->type));
}

int cmd_column_append(struct cmd_column_arguments *a, const void *values, uint64_t nr)
{
	struct shoal_err err = { "" };

	if (cli_stop)
		return CLI_INTERRUPTED;
	if (!a->dry_run && shoal_column_append(a->writer, values, nr, &err) < 0)
		return cmd_column_failed(a->output, &err);
	a->nr_written += nr;
	cli_progress_show(&a->progress, &(struct cli_step){ .what = "values",
							    .done = a->nr_written,
							    .total = a->info.nr_samples });
	return CLI_OK;
}

static void cmd_column_show_sorted(void *self, uint64_t nr)
{
	struct cmd_column_arguments *a = self;

	cli_progress_show(
		&a->progress,
		&(struct cli_step){ .what = "values sorted", .done = nr, .total = a->nr_to_sort });
}

static int sort_column(struct cmd_column_arguments *a, const char *path, const char *output)
{
	struct side_sort_watch watch = { &cli_stop, cmd_column_show_sorted, a };
	struct shoal_column *column = NULL, *keep = NULL;
	struct shoal_column_info info;
	struct shoal_err err = { "" };
	int status = CLI_OK, rc = 0;

	if (shoal_column_open(path, NULL, &column, &err) < 0)
		return cmd_column_failed(path, &err);
	shoal_column_info(column, &info);
	a->nr_to_sort = info.nr;
	if (a->dry_run) {
		cli_say("column", "%s value%s and their order would be written to '%s'",
			count_in_words(info.nr).text, plural(info.nr), output);
		shoal_column_close(column);
		return CLI_OK;
	}
	cli_progress_start(&a->progress, "column", true);
	if (a->keep && shoal_column_open(a->keep, NULL, &keep, &err) < 0)
		status = cmd_column_failed(a->keep, &err);
	if (status == CLI_OK)
		rc = side_sort(column, keep, output, 0, &watch, &err);
	cli_progress_clear(&a->progress);
	if (rc == -ECANCELED)
		status = CLI_INTERRUPTED;
	else if (rc < 0)
		status = cmd_column_failed(path, &err);
	shoal_column_close(column);
	shoal_column_close(keep);
	return status;
}

static int print_info(const struct cmd_column_arguments *a, const char *path);

int cmd_column_end(struct cmd_column_arguments *a, int status)
{
	struct shoal_err err = { "" };

	cli_progress_clear(&a->progress);
	if (status != CLI_OK)
		a->writer = shoal_column_abort(a->writer);
	else if (!a->dry_run && shoal_column_seal(a->writer, &err) < 0)
		status = cmd_column_failed(a->output, &err);
	a->writer = NULL;
	if (status == CLI_OK && !a->dry_run && a->unsorted)
		status = sort_column(a, a->unsorted, a->output);
	if (!a->dry_run && a->unsorted)
		unlink(a->unsorted);
	if (status == CLI_OK && a->json && !a->dry_run)
		return print_info(a, a->output);
	if (status == CLI_OK && (a->dry_run || !cli_talk.quiet))
		cli_say("column", "%s value%s of type %s %s '%s'",
			count_in_words(a->info.nr_samples).text, plural(a->info.nr_samples),
			shoal_column_type_name(a->type), a->dry_run ? "would be written to" : "in",
			a->output);
	return status;
}

/* ---- Sizes ------------------------------------------------------------------------------ */

/* The bytes of each sample: a file's size divided by its samples, rounded up. */
static int cmd_column_put_file(struct cmd_column_arguments *a, uint64_t id, uint8_t *values,
			       uint64_t *fill)
{
	struct import_number n = { .kind = IMPORT_UNSIGNED };
	uint64_t size = 0, first = 0, nr = 0;
	int rc = shoal_catalog_size(a->cat, id, &size), status = CLI_OK;

	if (rc == 0)
		rc = shoal_catalog_samples(a->cat, id, &first, &nr);
	if (rc < 0)
		return cli_lookup_failed("column", a->catalog_path, a->cat, rc);
	if (nr)
		n.whole = size / nr + (size % nr != 0);
	for (; nr > 0 && status == CLI_OK; nr--) {
		status = cmd_column_store(a, &n, values, *fill, a->catalog_path, "file", id);
		if (status == CLI_OK && ++*fill == COLUMN_CHUNK) {
			status = cmd_column_append(a, values, *fill);
			*fill = 0;
		}
	}
	return status;
}

static int make_sizes(struct cmd_column_arguments *a)
{
	static uint8_t values[8 * COLUMN_CHUNK]; /* too large for a small stack, like those below */
	uint64_t fill = 0;
	int status;

	if (a->info.nr_bytes == SHOAL_SIZE_UNKNOWN)
		return cli_fail("column", "'%s': the catalog has no sizes: index it with sizes",
				a->catalog_path);
	status = cmd_column_begin(a, "size", SHOAL_U64);
	for (uint64_t id = 0; id < a->info.nr_files && status == CLI_OK; id++)
		status = cmd_column_put_file(a, id, values, &fill);
	if (status == CLI_OK)
		status = cmd_column_append(a, values, fill);
	return cmd_column_end(a, status);
}

/* ---- What there is ---------------------------------------------------------------------- */

static void print_info_json(const struct shoal_column_info *i)
{
	struct json j = cli_json();

	json_open_object(&j, NULL);
	json_string(&j, "name", i->name);
	json_string(&j, "type", shoal_column_type_name(i->type));
	json_u64(&j, "first", i->first);
	json_u64(&j, "values", i->nr);
	json_u64(&j, "samples", i->nr_samples);
	json_real(&j, "min", i->min, 17);
	json_real(&j, "max", i->max, 17);
	if (i->type == SHOAL_BIT)
		json_u64(&j, "ones", i->nr_ones);
	if (i->nr_sorted == SHOAL_UNSORTED) {
		json_null(&j, "sorted");
	} else {
		json_open_object(&j, "sorted");
		json_u64(&j, "samples", i->nr_sorted);
		json_bool(&j, "kept_only", i->kept_only);
		json_close_object(&j);
	}
	json_u64(&j, "file_bytes", i->file_bytes);
	json_string(&j, "catalog", i->digest);
	json_close_object(&j);
}

static void print_info_text(const struct shoal_column_info *i)
{
	printf("name            %s\ntype            %s\n", i->name,
	       shoal_column_type_name(i->type));
	printf("values          %s from sample %s of %s\n", count_in_words(i->nr).text,
	       count_in_words(i->first).text, count_in_words(i->nr_samples).text);
	printf("min             %.17g\nmax             %.17g\n", i->min, i->max);
	if (i->type == SHOAL_BIT)
		printf("ones            %s\n", count_in_words(i->nr_ones).text);
	if (i->nr_sorted == SHOAL_UNSORTED)
		printf("sorted          no\n");
	else
		printf("sorted          %s sample%s%s\n", count_in_words(i->nr_sorted).text,
		       plural(i->nr_sorted), i->kept_only ? " of those that are kept" : "");
	cli_put_bytes(stdout, "file_bytes      ", i->file_bytes);
	printf("catalog         %s\n", i->digest);
}

static int print_info(const struct cmd_column_arguments *a, const char *path)
{
	struct shoal_column *column = NULL;
	struct shoal_column_info i;
	struct shoal_err err = { "" };

	if (shoal_column_open(path, NULL, &column, &err) < 0)
		return cmd_column_failed(path, &err);
	shoal_column_info(column, &i);
	if (a->json)
		print_info_json(&i);
	else
		print_info_text(&i);
	shoal_column_close(column);
	return CLI_OK;
}

static int verify(const struct cmd_column_arguments *a, struct json *j, const char *path)
{
	struct shoal_column *column = NULL;
	struct shoal_err err = { "" };
	bool good = shoal_column_open(path, NULL, &column, &err) == 0 &&
		    shoal_column_verify(column, &err) == 0;

	if (!good)
		cmd_column_failed(path, &err);
	else if (!cli_talk.quiet && !a->json)
		printf("%s: good\n", path);
	if (a->json) { /* as verify --json has it */
		json_open_object(j, NULL);
		json_string(j, "file", path);
		json_bool(j, "good", good);
		json_string(j, "damage", good ? NULL : err.msg);
		json_close_object(j);
	}
	shoal_column_close(column);
	return good ? CLI_OK : CLI_FAILED;
}

static int verify_all(const struct cmd_column_arguments *a, int nr, char **paths)
{
	struct json j = cli_json();
	int status = CLI_OK;

	if (a->json)
		json_open_array(&j, NULL);
	for (int i = 0; i < nr; i++)
		if (verify(a, &j, paths[i]) != CLI_OK)
			status = CLI_FAILED;
	if (a->json)
		json_close_array(&j);
	return status;
}

/* ---- The command ------------------------------------------------------------------------ */

static bool take_type(const char *command, const char *value, void *into)
{
	if (shoal_column_type_of(value, &((struct cmd_column_arguments *)into)->type) == 0)
		return true;
	cli_usage(command, "--type '%s' is not bit, u8, u16, u32, u64, i64, f32 or f64", value);
	return false;
}

static int cmd_column_sort(struct cmd_column_arguments *a, const char *path, const char *output)
{
	int status = cli_keep_foreign("column", output, "a column", SIDE_MAGIC,
				      a->force || strcmp(path, output) == 0);

	if (status == CLI_OK)
		status = sort_column(a, path, output);
	return status == CLI_OK && a->json && !a->dry_run ? print_info(a, output) : status;
}

/* The options that make a column of a catalog. */
static int cmd_column_create(struct cmd_column_arguments *a, const char *catalog_path,
			     const char *file)
{
	struct shoal_catalog *cat = cli_open("column", catalog_path, &a->where);
	int status;

	if (!cat)
		return CLI_FAILED;
	a->cat = cat;
	a->catalog_path = catalog_path;
	shoal_catalog_info(cat, &a->info);
	status = file ? cmd_column_import(a, file) : make_sizes(a);
	free(a->default_output);
	free(a->unsorted);
	shoal_catalog_close(cat);
	return status;
}

static int cmd_column_act(struct cmd_column_arguments *a, const char *what, int argc, char **argv)
{
	if (strcmp(what, "sizes") == 0 && argc == 1)
		return cmd_column_create(a, argv[0], NULL);
	if (strcmp(what, "import") == 0 && argc == 2)
		return cmd_column_create(a, argv[0], argv[1]);
	if (strcmp(what, "sort") == 0 && argc == 1)
		return cmd_column_sort(a, argv[0], a->output ? a->output : argv[0]);
	if (strcmp(what, "info") == 0 && argc == 1)
		return print_info(a, argv[0]);
	if (strcmp(what, "verify") == 0 && argc > 0)
		return verify_all(a, argc, argv);
	return cli_usage("column",
			 "give sizes CATALOG, import CATALOG FILE, sort COLUMN, info COLUMN or "
			 "verify COLUMN...");
}

static int cmd_column_run(void *arguments, int nr, char **words)
{
	struct cmd_column_arguments *a = arguments;
	struct shoal_err err = { "" };
	int status;

	if (a->output && output_file(a->output, &a->output, &err) < 0)
		return cli_usage("column", "%s", cli_words("column", &err));
	for (int i = 1; i < nr; i++) /* those in buckets are catalogs */
		if (store_local_path(words[i]))
			words[i] += store_local_path(words[i]) - words[i];
	cli_catch_signals();
	status = cmd_column_act(arguments, words[0], nr - 1, words + 1);
	if (status == CLI_INTERRUPTED) {
		cli_fail("column", "interrupted: nothing was written");
		cli_die_of_signal();
	}
	return status;
}

#define AT(field) offsetof(struct cmd_column_arguments, field)

static const struct cli_option options[] = {
	CLI_TEXT('o', "output", "FILE", AT(output),
		 "the column to write (default CATALOG.NAME.col; sort: in place)"),
	CLI_TEXT(0, "name", "NAME", AT(name), "its name (default size, or length)"),
	CLI_OTHER(
		0, "type", "TYPE", take_type,
		"bit, u8, u16, u32, u64, i64, f32 or f64 (default u64; import: that of the array, "
		"or f64)"),
	CLI_FLAG(0, "sort", AT(sort), "also write the order of samples by value"),
	CLI_TEXT(0, "keep", "COLUMN", AT(keep),
		 "only of the samples that this column of type bit keeps"),
	CLI_FLAG(0, "force", AT(force), "replace a file that is not a column"),
	CLI_FLAG(0, "dry-run", AT(dry_run), "write nothing: print what would be written"),
	CLI_JSON(AT(json)),
	CLI_LOCAL_COPY(AT(where.local_copy)),
	CLI_END,
};

static const struct cli_option csv_options[] = {
	CLI_TEXT(
		0, "field", "FIELD", AT(field),
		"the field with the number, from 1, or by its name in the first line (default: the "
		"last)"),
	CLI_TEXT(0, "by-name", "FIELD", AT(by_name),
		 "the field with the file's name; lines may then be in any order"),
	CLI_FLAG(0, "header", AT(header), "the first line has names, not values"),
	CLI_END,
};

static const char *const actions[] = { "sizes", "import", "sort", "info", "verify", NULL };

const struct cli_command cmd_column = {
	.name = "column",
	.summary = "make, sort and check columns: one number per sample",
	.usage = "sizes CATALOG [OPTION]...\n"
		 "import CATALOG FILE [OPTION]...\n"
		 "sort COLUMN [--keep COLUMN] [-o FILE]\n"
		 "info COLUMN [--json]\n"
		 "verify COLUMN...",
	.about =
		"A column is one number per sample of a catalog, in a file of its own: the catalog's "
		"sizes, or the values in FILE: a NumPy array (.npy), or CSV with one line per "
		"sample. Batches by length need a sorted column; a column of type bit selects the "
		"samples to keep.",
	.sections = { { .options = options },
		      { .title = "import of CSV", .options = csv_options },
		      CLI_S3_SECTION(AT(where.config)) },
	.first_word = actions,
	.min = 1,
	.give = "give an action: sizes, import, sort, info or verify",
	.size = sizeof(struct cmd_column_arguments),
	.run = cmd_column_run,
};
