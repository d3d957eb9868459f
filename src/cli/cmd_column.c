/* shoal column: make, sort, check and describe columns, one number per sample. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/publish.h"
#include "base/text.h"
#include "catalog/sidecar_format.h"
#include "catalog/sidecar_writer.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hints.h"
#include "cli/progress.h"
#include "cli/s3_options.h"
#include "format/import.h"
#include "open/output.h"
#include "store/uri.h"

#define CHUNK      4096u /* values at once */
#define FIELDS_MAX 256
#define LINE_MAX_  (1u << 16)

struct cmd_column_arguments {
	struct cli_where where;
	const char *output, *name, *field, *by_name, *keep;
	char *default_output;
	char *unsorted; /* written before it is sorted: a file with the final name is complete */
	enum shoal_column_type type; /* 0: not given */
	bool header, sort, force, dry_run, json;
	struct cli_progress progress;
	uint64_t nr_written, nr_to_sort;
	/* While a column is made: */
	const char *catalog_path;
	const struct shoal_catalog *cat;
	struct shoal_catalog_info info;
	struct shoal_column_writer *writer;
};

static int cmd_column_failed(const char *path, struct shoal_err *err)
{
	return cli_fail("column", "'%s': %s", path, cli_words("column", err));
}

static size_t cmd_column_width_of(enum shoal_column_type type)
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

static int cmd_column_begin(struct cmd_column_arguments *a, const char *default_name,
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

/* Store number @n as value @i of @values, which @where describes in messages. */
static int store(const struct cmd_column_arguments *a, const struct import_number *n,
		 uint8_t *values, uint64_t i, const char *path, const char *what, uint64_t where)
{
	if (import_number_store(n, a->type, values + i * cmd_column_width_of(a->type)) == 0)
		return CLI_OK;
	return cli_fail("column",
			"'%s', %s %" PRIu64 ": the number does not fit type %s: use --type", path,
			what, where, shoal_column_type_name(a->type));
}

static int cmd_column_append(struct cmd_column_arguments *a, const void *values, uint64_t nr)
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

/* Seal it, or discard it. */
static int cmd_column_end(struct cmd_column_arguments *a, int status)
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
		status = store(a, &n, values, *fill, a->catalog_path, "file", id);
		if (status == CLI_OK && ++*fill == CHUNK) {
			status = cmd_column_append(a, values, *fill);
			*fill = 0;
		}
	}
	return status;
}

static int make_sizes(struct cmd_column_arguments *a)
{
	static uint8_t values[8 * CHUNK]; /* too large for a small stack, like those below */
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

/* ---- NumPy ------------------------------------------------------------------------------ */

static int copy_array(struct cmd_column_arguments *a, FILE *in, const struct import_array *array,
		      const char *path)
{
	static uint8_t bytes[8 * CHUNK], values[8 * CHUNK];
	uint64_t nr;

	for (uint64_t done = 0; done < array->nr; done += nr) {
		int status = CLI_OK;

		nr = u64_min(CHUNK, array->nr - done);
		if (fread(bytes, array->width, nr, in) != nr)
			return cli_fail("column",
					"'%s': truncated: it has fewer than its %" PRIu64 " values",
					path, array->nr);
		for (uint64_t i = 0; i < nr && status == CLI_OK; i++) {
			struct import_number n = import_npy_number(array, bytes + i * array->width);

			status = store(a, &n, values, i, path, "value", done + i);
		}
		if (status == CLI_OK)
			status = cmd_column_append(a, values, nr);
		if (status != CLI_OK)
			return status;
	}
	return CLI_OK;
}

static int import_npy(struct cmd_column_arguments *a, FILE *in, const char *path)
{
	static uint8_t header[1u << 16];
	struct import_array array;
	struct shoal_err err = { "" };
	size_t len = fread(header, 1, sizeof(header), in);
	int status;

	if (import_npy_parse(header, len, &array, &err) < 0)
		return cmd_column_failed(path, &err);
	if (array.nr != a->info.nr_samples)
		return cli_fail("column",
				"'%s' has %" PRIu64 " value%s, but the catalog has %" PRIu64
				" sample%s",
				path, array.nr, plural(array.nr), a->info.nr_samples,
				plural(a->info.nr_samples));
	if (fseek(in, (long)array.data_off, SEEK_SET) < 0)
		return cli_fail("column", "'%s': cannot read it: %s", path, strerror(errno));
	status = cmd_column_begin(a, "length", array.type);
	if (status == CLI_OK)
		status = copy_array(a, in, &array, path);
	return cmd_column_end(a, status);
}

/* ---- CSV -------------------------------------------------------------------------------- */

struct csv {
	FILE *in;
	const char *path;
	char line[LINE_MAX_];
	uint64_t number; /* of the line, from 1 */
	struct import_field field[FIELDS_MAX];
	int nr;          /* fields of the line */
	int value, name; /* which fields; -1: the last, or none */
};

/* The next line that is not empty, cut into fields: 1, 0 at the end, -1 after printing an error. */
static int cmd_column_next_line(struct csv *c)
{
	size_t len;

	do {
		if (!fgets(c->line, sizeof(c->line), c->in))
			return ferror(c->in) ? -cli_fail("column", "'%s': cannot read it: %s",
							 c->path, strerror(errno))
					     : 0;
		c->number++;
		len = strlen(c->line);
		if (len == sizeof(c->line) - 1 && c->line[len - 1] != '\n') {
			cli_fail("column", "'%s', line %" PRIu64 " is longer than %u bytes",
				 c->path, c->number, LINE_MAX_ - 2);
			return -1;
		}
		while (len && (c->line[len - 1] == '\n' || c->line[len - 1] == '\r'))
			len--;
	} while (len == 0);
	c->nr = import_csv_split(c->line, len, c->field, FIELDS_MAX);
	if (c->nr < 0 || c->nr > FIELDS_MAX) {
		cli_fail("column", "'%s', line %" PRIu64 ": %s", c->path, c->number,
			 c->nr < 0 ? "a quote is not closed, or text follows it"
				   : "too many fields");
		return -1;
	}
	return 1;
}

/*
 * The field that @which selects: a number from 1, or a name in the first line. False after printing
 * an error.
 */
static bool find_field(struct csv *c, const char *which, bool *named, int *ret_field)
{
	char *end_of_number;
	unsigned long number = strtoul(which, &end_of_number, 10);

	if (*which && !*end_of_number && number >= 1 && number <= FIELDS_MAX) {
		*ret_field = (int)number - 1;
		return true;
	}
	*named = true;
	for (int i = 0; i < c->nr; i++) {
		if (c->field[i].len == strlen(which) &&
		    memcmp(c->field[i].text, which, c->field[i].len) == 0) {
			*ret_field = i;
			return true;
		}
	}
	cli_fail("column", "'%s': no field of the first line is named '%s'", c->path, which);
	return false;
}

/* The number of the line. */
static int line_number(const struct cmd_column_arguments *a, const struct csv *c, uint8_t *values,
		       uint64_t i)
{
	int field = c->value < 0 ? c->nr - 1 : c->value;
	struct import_number n;

	if (field >= c->nr)
		return cli_fail("column", "'%s', line %" PRIu64 ": it has only %d fields", c->path,
				c->number, c->nr);
	if (import_number_parse(c->field[field].text, c->field[field].len, &n) < 0)
		return cli_fail("column",
				"'%s', line %" PRIu64
				": '%.*s' is not a number (is the first line a "
				"header? then use --header)",
				c->path, c->number, (int)u64_min(c->field[field].len, 40),
				c->field[field].text);
	return store(a, &n, values, i, c->path, "line", c->number);
}

static int lines_in_order(struct cmd_column_arguments *a, struct csv *c, int have)
{
	static uint8_t values[8 * CHUNK];
	uint64_t fill = 0, nr = 0;
	int status = CLI_OK;

	for (; have > 0 && status == CLI_OK; have = cmd_column_next_line(c)) {
		if (nr++ == a->info.nr_samples)
			return cli_fail("column",
					"'%s' has more than %" PRIu64
					" line%s, one for each sample",
					c->path, a->info.nr_samples, plural(a->info.nr_samples));
		status = line_number(a, c, values, fill);
		if (status == CLI_OK && ++fill == CHUNK) {
			status = cmd_column_append(a, values, fill);
			fill = 0;
		}
	}
	if (have < 0)
		return CLI_FAILED;
	if (status == CLI_OK && nr < a->info.nr_samples)
		return cli_fail(
			"column", "'%s' has only %" PRIu64 " line%s for %" PRIu64 " sample%s",
			c->path, nr, plural(nr), a->info.nr_samples, plural(a->info.nr_samples));
	return status == CLI_OK ? cmd_column_append(a, values, fill) : status;
}

static int place_line(const struct cmd_column_arguments *a, const struct csv *c, uint8_t *values,
		      uint8_t *seen)
{
	const struct import_field *name = &c->field[c->name];
	uint64_t id;
	int rc;

	if (c->name >= c->nr)
		return cli_fail("column", "'%s', line %" PRIu64 ": it has only %d fields", c->path,
				c->number, c->nr);
	rc = shoal_catalog_find(a->cat, name->text, name->len, &id);
	if (rc == -ENOENT)
		return cli_fail("column",
				"'%s', line %" PRIu64 ": the catalog has no file named '%.*s'",
				c->path, c->number, (int)u64_min(name->len, 200), name->text);
	if (rc < 0)
		return cli_lookup_failed("column", a->catalog_path, a->cat, rc);
	if (seen[id / 8] >> (id % 8) & 1)
		return cli_fail("column", "'%s', line %" PRIu64 ": '%.*s' is repeated", c->path,
				c->number, (int)u64_min(name->len, 200), name->text);
	seen[id / 8] |= (uint8_t)(1u << (id % 8));
	return line_number(a, c, values, id);
}

static int find_missing(const struct cmd_column_arguments *a, const struct csv *c,
			const uint8_t *seen)
{
	char name[SHOAL_NAME_MAX + 1] = "";

	for (uint64_t id = 0; id < a->info.nr_files; id++) {
		if (seen[id / 8] >> (id % 8) & 1)
			continue;
		if (shoal_catalog_name(a->cat, id, name) < 0)
			name[0] = '\0';
		return cli_fail("column", "'%s' has no line for file %" PRIu64 ", '%s'", c->path,
				id, name);
	}
	return CLI_OK;
}

/* Lines in any order: each number goes to its place in @values, a mapped unnamed file. */
static int lines_by_name(struct cmd_column_arguments *a, struct csv *c, int have, uint8_t *values)
{
	/* One bit per file, to detect missing and repeated ones. */
	uint8_t *seen = calloc(a->info.nr_files / 8 + 1, 1);
	int status = CLI_OK;

	if (!seen)
		return cli_fail("column", "out of memory");
	for (; have > 0 && status == CLI_OK; have = cmd_column_next_line(c))
		status = cli_stop ? CLI_INTERRUPTED : place_line(a, c, values, seen);
	if (have < 0)
		status = CLI_FAILED;
	if (status == CLI_OK)
		status = find_missing(a, c, seen);
	for (uint64_t at = 0, nr; at < a->info.nr_samples && status == CLI_OK; at += nr) {
		nr = u64_min(CHUNK, a->info.nr_samples - at);
		status = cmd_column_append(a, values + at * cmd_column_width_of(a->type), nr);
	}
	free(seen);
	return status;
}

static int import_by_name(struct cmd_column_arguments *a, struct csv *c, int have)
{
	uint64_t len = u64_max(a->info.nr_samples, 1) * cmd_column_width_of(a->type);
	char *dir = path_dir(a->output);
	struct shoal_err err = { "out of memory" };
	int fd = dir ? spill_open(dir, &err) : -1, status;
	void *values = MAP_FAILED;

	if (a->info.nr_samples != a->info.nr_files)
		status = cli_fail("column",
				  "'%s': some files do not have exactly one sample, so names "
				  "do not identify samples",
				  a->catalog_path);
	else if (fd < 0)
		status = cli_fail("column", "%s", cli_words("column", &err));
	else if (ftruncate(fd, (off_t)len) < 0 || (values = mmap(NULL, len, PROT_READ | PROT_WRITE,
								 MAP_SHARED, fd, 0)) == MAP_FAILED)
		status = cli_fail("column", "cannot make a temporary file in '%s': %s", dir,
				  strerror(errno));
	else
		status = lines_by_name(a, c, have, values);
	if (values != MAP_FAILED)
		munmap(values, len);
	if (fd >= 0)
		close(fd);
	free(dir);
	return status;
}

static int import_csv(struct cmd_column_arguments *a, struct csv *c)
{
	bool named = a->header;
	int have = cmd_column_next_line(c), status;

	if (have == 0 && a->info.nr_samples)
		return cli_fail("column", "'%s': the file has no lines", c->path);
	if (have < 0 || (a->field && !find_field(c, a->field, &named, &c->value)) ||
	    (a->by_name && !find_field(c, a->by_name, &named, &c->name)))
		return CLI_FAILED;
	if (named)
		have = cmd_column_next_line(c);
	if (have < 0)
		return CLI_FAILED;
	status = cmd_column_begin(a, "length", SHOAL_F64);
	if (status == CLI_OK)
		status = a->by_name ? import_by_name(a, c, have) : lines_in_order(a, c, have);
	return cmd_column_end(a, status);
}

static int import_file(struct cmd_column_arguments *a, const char *path)
{
	struct csv *c = calloc(1, sizeof(*c));
	FILE *in = strcmp(path, "-") ? fopen(path, "re") : stdin;
	size_t len = strlen(path);
	int status;

	if (!c)
		status = cli_fail("column", "out of memory");
	else if (!in)
		status = cli_fail("column", "'%s': cannot open it: %s", path, strerror(errno));
	else if (len > 4 && strcmp(path + len - 4, ".npy") == 0) {
		status = import_npy(a, in, path);
	} else {
		*c = (struct csv){ .in = in, .path = path, .value = -1, .name = -1 };
		status = import_csv(a, c);
	}
	if (in && in != stdin)
		fclose(in);
	free(c);
	return status;
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
	status = file ? import_file(a, file) : make_sizes(a);
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
