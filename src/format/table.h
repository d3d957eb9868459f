/*
 * table.h - the columns of a Parquet or an Arrow file, and how many rows are stored together.
 *
 * A table determines everything about such a file except its content: its size and the place of
 * each group of rows follow from it. It is constant, and any thread may use it.
 */
#ifndef SHOAL_FORMAT_TABLE_H
#define SHOAL_FORMAT_TABLE_H

#include "format/format.h"

/* The names are those in DLIO's configurations. */
enum format_type {
	FORMAT_FLOAT16,
	FORMAT_FLOAT32,
	FORMAT_FLOAT64,
	FORMAT_INT8,
	FORMAT_INT16,
	FORMAT_INT32,
	FORMAT_INT64,
	FORMAT_UINT8,
	FORMAT_UINT16,
	FORMAT_UINT32,
	FORMAT_UINT64,
	FORMAT_BOOL,
	FORMAT_STRING, /* "s_" and eight digits */
	FORMAT_BINARY, /* size bytes */
	FORMAT_NR_TYPES,
};

#define FORMAT_COLUMN_NAME_MAX 127u
#define FORMAT_COLUMNS_MAX     10000u

struct format_column {
	char name[FORMAT_COLUMN_NAME_MAX + 1];
	enum format_type type;
	uint64_t size; /* values per row: above 1 a list of fixed size; for binary, the number of
			  bytes */
};

struct format_table {
	uint64_t nr_rows, group_rows; /* rows per file; per row group or record batch */
	size_t nr_columns;
	struct format_column *column;
};

/* The name of a type, and the type of a name; FORMAT_NR_TYPES if there is none. */
const char *format_type_name(enum format_type type);
enum format_type format_type_by_name(const char *name);

/* Nominal bytes per row: values at the width of their type, as DLIO counts them. */
double format_table_row_bytes(const struct format_table *t);

/* -EINVAL, with a message, if no file of format @f can have this table. */
int format_table_check(const struct format *f, const struct format_table *t,
		       struct shoal_err *err) MUST_USE;

/*
 * The size of a file with this table, which format_table_check() has accepted, and the places of
 * its groups. @found may be NULL; it ends the walk by returning a value other than 0. The time
 * grows with groups times columns.
 */
int format_table_walk(const struct format *f, const struct format_table *t, format_extent_fn *found,
		      void *self, uint64_t *ret_size) MUST_USE;

/* ---- For the makers ---- */

struct format_type_traits {
	const char *name;
	unsigned width;     /* bytes per value; 0: depends on the type */
	bool is_signed;     /* of integers */
	uint8_t physical;   /* Parquet: Type */
	uint8_t stored;     /* Parquet: bytes per value; 0: depends on the type */
	int8_t converted;   /* Parquet: ConvertedType; -1: none */
	uint8_t arrow_type; /* Arrow: Type */
};

const struct format_type_traits *format_type_traits(enum format_type type);

/* Values in a row, for levels and counts: binary is one value whatever its size. */
static inline uint64_t format_column_values(const struct format_column *c)
{
	return c->type == FORMAT_BINARY ? 1 : c->size;
}

static inline bool format_column_is_list(const struct format_column *c)
{
	return format_column_values(c) > 1;
}

static inline uint64_t format_table_groups(const struct format_table *t)
{
	return (t->nr_rows + t->group_rows - 1) / t->group_rows;
}

static inline uint64_t format_table_rows_of(const struct format_table *t, uint64_t group)
{
	return u64_min(t->group_rows, t->nr_rows - group * t->group_rows);
}

#define FORMAT_STRING_LEN 10u /* "s_01234567" */

/* "s_" and eight digits that follow from @key. */
void format_string_value(uint64_t key, uint8_t out[FORMAT_STRING_LEN]);

#endif
