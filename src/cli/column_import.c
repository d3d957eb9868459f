/* Columns from files of other programs: NumPy arrays and CSV. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/publish.h"
#include "base/text.h"
#include "cli/column.h"
#include "cli/hints.h"

#define FIELDS_MAX 256
#define LINE_MAX_  (1u << 16)

/* ---- NumPy ------------------------------------------------------------------------------ */

static int copy_array(struct cmd_column_arguments *a, FILE *in, const struct import_array *array,
		      const char *path)
{
	static uint8_t bytes[8 * COLUMN_CHUNK], values[8 * COLUMN_CHUNK];
	uint64_t nr;

	for (uint64_t done = 0; done < array->nr; done += nr) {
		int status = CLI_OK;

		nr = u64_min(COLUMN_CHUNK, array->nr - done);
		if (fread(bytes, array->width, nr, in) != nr)
			return cli_fail("column",
					"'%s': truncated: it has fewer than its %" PRIu64 " values",
					path, array->nr);
		for (uint64_t i = 0; i < nr && status == CLI_OK; i++) {
			struct import_number n = import_npy_number(array, bytes + i * array->width);

			status = cmd_column_store(a, &n, values, i, path, "value", done + i);
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
	return cmd_column_store(a, &n, values, i, c->path, "line", c->number);
}

static int lines_in_order(struct cmd_column_arguments *a, struct csv *c, int have)
{
	static uint8_t values[8 * COLUMN_CHUNK];
	uint64_t fill = 0, nr = 0;
	int status = CLI_OK;

	for (; have > 0 && status == CLI_OK; have = cmd_column_next_line(c)) {
		if (nr++ == a->info.nr_samples)
			return cli_fail("column",
					"'%s' has more than %" PRIu64
					" line%s, one for each sample",
					c->path, a->info.nr_samples, plural(a->info.nr_samples));
		status = line_number(a, c, values, fill);
		if (status == CLI_OK && ++fill == COLUMN_CHUNK) {
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
		nr = u64_min(COLUMN_CHUNK, a->info.nr_samples - at);
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

int cmd_column_import(struct cmd_column_arguments *a, const char *path)
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
