/* What Parquet and Arrow files have in common: types, columns, sizes. */
#include "format/table.h"

#include <inttypes.h>

#include "base/text.h"
#include "format/format_private.h"

/* A footer describes every column of every group: this many take some hundred megabytes. */
#define CHUNKS_MAX (UINT64_C(1) << 22)
/* Lengths inside the files have 31 bits. */
#define ROW_MAX  (UINT64_C(1) << 30)
#define ROWS_MAX (UINT64_C(1) << 31)

static const struct format_type_traits types[] = {
	[FORMAT_FLOAT16] = { "float16", 2, false, 7, 2, -1, 3 },
	[FORMAT_FLOAT32] = { "float32", 4, false, 4, 4, -1, 3 },
	[FORMAT_FLOAT64] = { "float64", 8, false, 5, 8, -1, 3 },
	[FORMAT_INT8] = { "int8", 1, true, 1, 4, 15, 2 },
	[FORMAT_INT16] = { "int16", 2, true, 1, 4, 16, 2 },
	[FORMAT_INT32] = { "int32", 4, true, 1, 4, 17, 2 },
	[FORMAT_INT64] = { "int64", 8, true, 2, 8, 18, 2 },
	[FORMAT_UINT8] = { "uint8", 1, false, 1, 4, 11, 2 },
	[FORMAT_UINT16] = { "uint16", 2, false, 1, 4, 12, 2 },
	[FORMAT_UINT32] = { "uint32", 4, false, 1, 4, 13, 2 },
	[FORMAT_UINT64] = { "uint64", 8, false, 2, 8, 14, 2 },
	[FORMAT_BOOL] = { "bool", 0, false, 0, 0, -1, 6 },
	[FORMAT_STRING] = { "string", 0, false, 6, 4 + FORMAT_STRING_LEN, 0, 5 },
	[FORMAT_BINARY] = { "binary", 0, false, 7, 0, -1, 15 },
};

const struct format_type_traits *format_type_traits(enum format_type type)
{
	return &types[type];
}

const char *format_type_name(enum format_type type)
{
	return types[type].name;
}

enum format_type format_type_by_name(const char *name)
{
	unsigned i;

	for (i = 0; i < FORMAT_NR_TYPES && strcmp(types[i].name, name) != 0; i++)
		;
	return (enum format_type)i;
}

static double column_bytes(const struct format_column *c)
{
	if (c->type == FORMAT_STRING)
		return FORMAT_STRING_LEN * (double)c->size;
	return (types[c->type].width ? types[c->type].width : 1) * (double)c->size;
}

double format_table_row_bytes(const struct format_table *t)
{
	double sum = 0;

	for (size_t i = 0; i < t->nr_columns; i++)
		sum += column_bytes(&t->column[i]);
	return sum;
}

static int table_check_column(const struct format_column *c, struct shoal_err *err)
{
	if (c->name[0] == '\0')
		return err_set(err, -EINVAL, "a column has no name");
	if (c->size < 1 || column_bytes(c) > (double)ROW_MAX)
		return err_set(err, -EINVAL,
			       "column '%s' has %" PRIu64
			       " values per row: at least 1, and at most 1 GiB, are possible",
			       c->name, c->size);
	return 0;
}

/* Offsets of strings have 31 bits. */
static int check_strings(const struct format_table *t, struct shoal_err *err)
{
	uint64_t rows = u64_min(t->group_rows, t->nr_rows);

	for (size_t i = 0; i < t->nr_columns; i++)
		if (t->column[i].type == FORMAT_STRING &&
		    column_bytes(&t->column[i]) * (double)rows >= 0x1p31)
			return err_set(err, -EINVAL,
				       "groups of %" PRIu64
				       " rows are too large for the strings of column '%s'",
				       rows, t->column[i].name);
	return 0;
}

int format_table_check(const struct format *f, const struct format_table *t, struct shoal_err *err)
{
	int rc = 0;

	if (t->nr_columns < 1 || t->nr_columns > FORMAT_COLUMNS_MAX)
		return err_set(err, -EINVAL, "a %s file has 1 to %u columns, not %zu",
			       format_name(f), FORMAT_COLUMNS_MAX, t->nr_columns);
	for (size_t i = 0; i < t->nr_columns && rc == 0; i++)
		rc = table_check_column(&t->column[i], err);
	if (rc < 0)
		return rc;
	for (size_t i = 1; i < t->nr_columns; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(t->column[i].name, t->column[k].name) == 0)
				return err_set(err, -EINVAL, "two columns are called '%s'",
					       t->column[i].name);
	if (t->nr_rows < 1 || t->group_rows < 1 || u64_min(t->group_rows, t->nr_rows) >= ROWS_MAX)
		return err_set(err, -EINVAL, "groups of %" PRIu64 " rows are not possible",
			       t->group_rows);
	if (format_table_row_bytes(t) * (double)t->nr_rows > 0x1p44)
		return err_set(err, -EINVAL, "%" PRIu64 " rows are too many for one file",
			       t->nr_rows);
	if (format_table_groups(t) > CHUNKS_MAX / t->nr_columns)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " groups of %zu column%s are too many for one file: at "
			       "most %" PRIu64 " columns in all groups together",
			       format_table_groups(t), t->nr_columns, plural(t->nr_columns),
			       CHUNKS_MAX);
	return check_strings(t, err);
}

/*
 * The pieces of a file are counted, not generated, so the size is exactly that of the generated
 * file.
 */
int format_table_walk(const struct format *f, const struct format_table *t, format_extent_fn *found,
		      void *self, uint64_t *ret_size)
{
	struct format_maker m;
	uint64_t off = 0, start = 0, nr_started = 0, nr_ended = 0, before;
	int rc = 0;

	format_begin(&m, f, 0, &(struct format_spec){ .nr_samples = t->nr_rows, .table = t });
	do {
		before = m.nr_pieces;
		f->next(&m);
		if (m.plan.table.nr_ended > nr_ended && found)
			rc = found(self, nr_ended, start, off - start,
				   format_table_rows_of(t, nr_ended));
		if (m.plan.table.nr_started > nr_started)
			start = off;
		nr_ended = m.plan.table.nr_ended;
		nr_started = m.plan.table.nr_started;
		off += m.nr_pieces == before ? 0 : m.piece.len;
	} while (m.nr_pieces != before && rc == 0);
	if (ret_size)
		*ret_size = off;
	return rc;
}

void format_string_value(uint64_t key, uint8_t out[FORMAT_STRING_LEN])
{
	uint64_t v = format_mix(key, 's') % 100000000;

	out[0] = 's';
	out[1] = '_';
	for (unsigned i = FORMAT_STRING_LEN; i-- > 2; v /= 10)
		out[i] = (uint8_t)('0' + v % 10);
}
