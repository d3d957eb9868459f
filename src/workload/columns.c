/* The columns of Parquet and Arrow files: DLIO's lists of {name, dtype, size}. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "workload/keys.h"

static int read_name(struct yaml_node *n, struct format_column *c, struct shoal_err *err)
{
	if (n->kind != YAML_SCALAR || strlen(n->text) > FORMAT_COLUMN_NAME_MAX || !*n->text ||
	    !is_plain_utf8(n->text, strlen(n->text)))
		return yaml_node_fail(n, err, "a column's name has 1 to %u bytes of text",
				      FORMAT_COLUMN_NAME_MAX);
	memcpy(c->name, n->text, strlen(n->text) + 1);
	return 0;
}

static int read_type(struct yaml_node *n, struct format_column *c, struct shoal_err *err)
{
	char words[200] = "";
	size_t at = 0;

	c->type = n->kind == YAML_SCALAR ? format_type_by_name(n->text) : FORMAT_NR_TYPES;
	if (c->type != FORMAT_NR_TYPES)
		return 0;
	for (unsigned i = 0; i < FORMAT_NR_TYPES && at < sizeof(words); i++)
		at += (size_t)snprintf(words + at, sizeof(words) - at, "%s%s", i ? ", " : "",
				       format_type_name((enum format_type)i));
	return yaml_node_fail(n, err, "unknown dtype of a column: choose one of %s", words);
}

static int read_size(struct yaml_node *n, struct format_column *c, struct shoal_err *err)
{
	bool negative = false;

	if (n->kind != YAML_SCALAR || workload_parse_count(n->text, &negative, &c->size) < 0 ||
	    negative || c->size < 1 || c->size > UINT64_C(1) << 30)
		return yaml_node_fail(n, err, "a column's size is a number from 1 to 2^30");
	return 0;
}

/* "read" has no effect: all columns of a group are read. */
static int read_column(struct yaml_node *map, struct format_column *c, struct shoal_err *err)
{
	int rc = 0;

	*c = (struct format_column){ .type = FORMAT_FLOAT32, .size = 1 };
	if (map->kind != YAML_MAP)
		return yaml_node_fail(map, err, "a column is a map: {name: x, dtype: float32}");
	for (struct yaml_node *n = map->child; n && rc == 0; n = n->next)
		if (strcmp(n->key, "name") == 0)
			rc = read_name(n, c, err);
		else if (strcmp(n->key, "dtype") == 0)
			rc = read_type(n, c, err);
		else if (strcmp(n->key, "size") == 0)
			rc = read_size(n, c, err);
		else if (strcmp(n->key, "read") != 0)
			rc = yaml_node_fail(n, err,
					    "a column has name, dtype, size and read, not '%.60s'",
					    n->key);
	if (rc == 0 && !c->name[0])
		rc = yaml_node_fail(map, err, "a column has no name");
	return rc;
}

int workload_read_columns(const struct workload_key_spec *key, struct yaml_node *node,
			  struct workload_columns *columns, struct shoal_err *err)
{
	struct yaml_node *n;
	size_t nr = 0, i = 0;
	int rc = 0;

	if (node->kind != YAML_LIST)
		return yaml_node_fail(node, err, "%s must be a list of columns", key->path);
	for (n = node->child; n; n = n->next)
		nr++;
	free(columns->column);
	/* 144 bytes per column: a file has some thousand nodes at most. */
	columns->column = calloc(nr ? nr : 1, sizeof(*columns->column));
	columns->nr = columns->column ? nr : 0;
	if (!columns->column)
		return err_set(err, -ENOMEM, "out of memory");
	for (n = node->child; n && rc == 0; n = n->next)
		rc = read_column(n, &columns->column[i++], err);
	return rc;
}

const struct format *workload_format(const struct workload *w)
{
	enum workload_format f = w->dataset.format;

	return format_by_name(workload_format_name(
		f == WORKLOAD_MMAP_INDEXED_BINARY ? WORKLOAD_INDEXED_BINARY : f));
}

uint64_t workload_rows_together(const struct workload *w)
{
	const struct format_table *t = &w->dataset.table;

	return t->nr_columns ? u64_min(t->group_rows, t->nr_rows) : 1;
}

bool workload_has_extents(const struct workload *w)
{
	const struct format *f = workload_format(w);

	/* A file with a single sample is read as a whole, as DLIO does. */
	return f && format_has_extents(f) &&
	       (format_has_table(f) || w->dataset.format == WORKLOAD_TAR ||
		w->dataset.samples_per_file > 1);
}

/*
 * Without columns: one of record_length bytes. DLIO makes a list of small integers, each of which
 * takes four bytes.
 */
static int default_columns(struct workload_dataset *d, struct workload_columns *c,
			   struct shoal_err *err)
{
	if (c->nr)
		return 0;
	free(c->column);
	c->column = calloc(1, sizeof(*c->column));
	if (!c->column)
		return err_set(err, -ENOMEM, "out of memory");
	c->nr = 1;
	c->column[0] = (struct format_column){ .name = "data",
					       .type = FORMAT_BINARY,
					       .size = (uint64_t)d->record_bytes };
	return 0;
}

int workload_fit_table(struct workload *w, struct yaml_node *root, workload_warn_fn *warn,
		       void *self, struct shoal_err *err)
{
	struct workload_dataset *d = &w->dataset;
	struct workload_columns *c = d->format == WORKLOAD_ARROW ? &d->arrow : &d->parquet;
	bool given = yaml_find(root, "dataset.record_length_bytes") ||
		     yaml_find(root, "dataset.record_length");
	const struct format *f = workload_format(w);
	struct shoal_err why = { "" };
	int rc;

	if (!f || !format_has_table(f))
		return 0;
	rc = default_columns(d, c, err);
	if (rc < 0)
		return rc;
	d->table = (struct format_table){ .nr_rows = d->samples_per_file,
					  .group_rows = c->group_rows,
					  .nr_columns = c->nr,
					  .column = c->column };
	if (format_table_check(f, &d->table, &why) < 0)
		return err_set(err, -EINVAL, "dataset.%s: %s", format_name(f), why.msg);
	if (d->compression != WORKLOAD_PLAIN)
		return err_set(err, -EINVAL,
			       "dataset.compression: %s files are written without compression",
			       format_name(f));
	if (warn && d->record_stdev > 0)
		warn(self, "dataset.record_length_bytes_stdev has no effect: all rows have the "
			   "same columns");
	d->record_stdev = 0;
	if (!given)
		d->record_bytes = format_table_row_bytes(&d->table);
	return format_table_walk(f, &d->table, NULL, NULL, &d->table_bytes);
}
