/*
 * Write Parquet files: pages of plain values without compression, dictionaries or statistics, group
 * by group, then a footer. Columns are required, so scalars have no levels; a list of fixed size
 * has the three levels that readers expect. Everything is generated from the table alone, in the
 * order of the file; only the position is remembered. Field numbers are those of parquet.thrift.
 */
#include "format/format_private.h"
#include "format/table.h"

#define PAGE (UINT64_C(1) << 20) /* bytes of values; a longer row gets a page of its own */

/* ---- Thrift's compact protocol ---- */

struct thrift_out {
	uint8_t *at;
	int id[6]; /* the previous field's number, per nesting level */
	unsigned level;
};

static uint8_t *thrift_put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

static unsigned varint_len(uint64_t v)
{
	unsigned n = 1;

	for (; v >= 0x80; v >>= 7)
		n++;
	return n;
}

static void thrift_put_field(struct thrift_out *o, int id, unsigned type)
{
	*o->at++ = (uint8_t)((unsigned)(id - o->id[o->level]) << 4 | type);
	o->id[o->level] = id;
}

/* Numbers here are never negative. */
static void put_i32(struct thrift_out *o, int id, uint64_t v)
{
	thrift_put_field(o, id, 5);
	o->at = thrift_put_varint(o->at, v << 1);
}

static void put_i64(struct thrift_out *o, int id, uint64_t v)
{
	thrift_put_field(o, id, 6);
	o->at = thrift_put_varint(o->at, v << 1);
}

static void thrift_put_text(struct thrift_out *o, const char *text)
{
	o->at = thrift_put_varint(o->at, strlen(text));
	o->at = format_text(o->at, text);
}

static void put_string(struct thrift_out *o, int id, const char *text)
{
	thrift_put_field(o, id, 8);
	thrift_put_text(o, text);
}

static void thrift_put_list(struct thrift_out *o, int id, unsigned type, uint64_t nr)
{
	thrift_put_field(o, id, 9);
	*o->at++ = (uint8_t)((nr < 15 ? nr : 15) << 4 | type);
	if (nr >= 15)
		o->at = thrift_put_varint(o->at, nr);
}

static void put_struct(struct thrift_out *o, int id)
{
	thrift_put_field(o, id, 12);
	o->id[++o->level] = 0;
}

static void thrift_put_end(struct thrift_out *o)
{
	*o->at++ = 0;
	o->level -= o->level > 0;
}

/* ---- Pages ---- */

static uint64_t values_len(const struct format_column *c, uint64_t nr)
{
	if (c->type == FORMAT_BOOL)
		return (nr + 7) / 8;
	return nr * (c->type == FORMAT_BINARY ? c->size : format_type_traits(c->type)->stored);
}

static uint64_t rows_per_page(const struct format_column *c)
{
	return u64_max(1, PAGE / u64_max(1, values_len(c, format_column_values(c))));
}

/* Levels are run-length encoded, one bit each. Repetition: a row begins with 0, followed by 1s. */
static size_t row_levels_len(const struct format_column *c)
{
	return 2 + varint_len((format_column_values(c) - 1) << 1) + 1;
}

static uint64_t levels_len(const struct format_column *c, uint64_t rows)
{
	if (!format_column_is_list(c))
		return 0;
	return 4 + rows * row_levels_len(c) + 4 + varint_len(rows * format_column_values(c) << 1) +
	       1;
}

static uint64_t parquet_page_len(const struct format_column *c, uint64_t rows)
{
	return levels_len(c, rows) + values_len(c, rows * format_column_values(c));
}

static uint8_t *put_page_header(uint8_t *p, const struct format_column *c, uint64_t rows)
{
	struct thrift_out o = { .at = p };

	put_i32(&o, 1, 0); /* a data page */
	put_i32(&o, 2, parquet_page_len(c, rows));
	put_i32(&o, 3, parquet_page_len(c, rows));
	put_struct(&o, 5);
	put_i32(&o, 1, rows * format_column_values(c));
	put_i32(&o, 2, 0); /* plain */
	put_i32(&o, 3, 3); /* levels: run-length encoding */
	put_i32(&o, 4, 3);
	thrift_put_end(&o);
	thrift_put_end(&o);
	return o.at;
}

static uint64_t pages_len(const struct format_column *c, uint64_t rows)
{
	uint8_t header[64];

	return (uint64_t)(put_page_header(header, c, rows) - header) + parquet_page_len(c, rows);
}

static uint64_t chunk_len(const struct format_column *c, uint64_t rows)
{
	uint64_t each = u64_min(rows_per_page(c), rows), rest = rows % each;

	return rows / each * pages_len(c, each) + (rest ? pages_len(c, rest) : 0);
}

/* ---- Values ---- */

/* 8 and 16 bits are stored as 32, in their range. */
static void fill_small(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	enum format_type type = m->plan.table.of->column[m->plan.table.column].type;
	unsigned width = format_type_traits(type)->width;
	uint8_t random[FORMAT_CELL / 2];

	format_random(format_mix(m->piece.key, cell), random, len / 4 * width);
	for (size_t i = 0; i < len / 4; i++) {
		uint32_t v =
			width == 1 ? random[i] : random[2 * i] | (uint32_t)random[2 * i + 1] << 8;

		if (format_type_traits(type)->is_signed)
			v = width == 1 ? (uint32_t)(int8_t)v : (uint32_t)(int16_t)v;
		format_le32(out + 4 * i, v);
	}
}

#define STRING_STORED (4 + FORMAT_STRING_LEN)
#define STRING_CELL   (FORMAT_CELL / STRING_STORED * STRING_STORED)

static void fill_strings(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	uint64_t first = cell * (STRING_CELL / STRING_STORED);

	for (size_t i = 0; i < len / STRING_STORED; i++) {
		uint8_t *p = format_le32(out + i * STRING_STORED, FORMAT_STRING_LEN);

		format_string_value(format_mix(m->piece.key, first + i), p);
	}
}

/* The repetition levels, row by row. */
static void fill_levels(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	const struct format_column *c = &m->plan.table.of->column[m->plan.table.column];
	uint8_t row[16], *p = row;
	size_t n;

	(void)cell;
	*p++ = 1 << 1;
	*p++ = 0;
	p = thrift_put_varint(p, (format_column_values(c) - 1) << 1);
	*p++ = 1;
	n = (size_t)(p - row);
	for (size_t i = 0; i < len; i += n)
		memcpy(out + i, row, n);
}

static void put_values(struct format_maker *m, const struct format_column *c, uint64_t rows)
{
	const struct format_type_traits *t = format_type_traits(c->type);
	uint64_t len = values_len(c, rows * format_column_values(c));

	if (c->type == FORMAT_STRING)
		format_put_content(m, len, fill_strings, STRING_CELL, 0);
	else if (t->width && t->width < t->stored)
		format_put_content(m, len, fill_small, FORMAT_CELL, 0);
	else
		format_put_random(m, len, 0);
}

/* ---- The footer ---- */

/* A leaf of the schema: a column, or the element of a list. */
static void put_leaf(struct thrift_out *o, const struct format_column *c, const char *name)
{
	const struct format_type_traits *t = format_type_traits(c->type);

	put_i32(o, 1, t->physical);
	if (c->type == FORMAT_FLOAT16 || c->type == FORMAT_BINARY)
		put_i32(o, 2, c->type == FORMAT_BINARY ? c->size : 2);
	put_i32(o, 3, 0); /* required */
	put_string(o, 4, name);
	if (t->converted >= 0)
		put_i32(o, 6, (uint64_t)t->converted);
	if (c->type == FORMAT_FLOAT16 || c->type == FORMAT_STRING || t->arrow_type == 2) {
		put_struct(o, 10);
		put_struct(o, c->type == FORMAT_FLOAT16 ? 15 : c->type == FORMAT_STRING ? 1 : 10);
		if (t->arrow_type == 2) { /* an integer: its bits, and whether it has a sign */
			thrift_put_field(o, 1, 3);
			*o->at++ = (uint8_t)(8 * t->width);
			thrift_put_field(o, 2, t->is_signed ? 1 : 2);
		}
		thrift_put_end(o);
		thrift_put_end(o);
	}
	thrift_put_end(o);
}

static void put_schema_column(struct format_maker *m, const struct format_column *c)
{
	struct thrift_out o = { .at = format_put(m, 0, 0) };

	if (!format_column_is_list(c)) {
		put_leaf(&o, c, c->name);
	} else {
		put_i32(&o, 3, 0);
		put_string(&o, 4, c->name);
		put_i32(&o, 5, 1);
		put_i32(&o, 6, 3); /* a list */
		put_struct(&o, 10);
		put_struct(&o, 3);
		thrift_put_end(&o);
		thrift_put_end(&o);
		thrift_put_end(&o);
		o = (struct thrift_out){ .at = o.at };
		put_i32(&o, 3, 2); /* repeated */
		put_string(&o, 4, "list");
		put_i32(&o, 5, 1);
		thrift_put_end(&o);
		o = (struct thrift_out){ .at = o.at };
		put_leaf(&o, c, "element");
	}
	m->piece.len = (uint64_t)(o.at - m->literal);
}

static void parquet_put_footer_head(struct format_maker *m)
{
	const struct format_table *t = m->plan.table.of;
	struct thrift_out o = { .at = format_put(m, 0, 0) };
	uint64_t nr = 1;

	for (size_t i = 0; i < t->nr_columns; i++)
		nr += format_column_is_list(&t->column[i]) ? 3 : 1;
	put_i32(&o, 1, 2); /* version */
	thrift_put_list(&o, 2, 12, nr);
	o.id[++o.level] = 0;
	put_string(&o, 4, "schema");
	put_i32(&o, 5, t->nr_columns);
	thrift_put_end(&o);
	m->piece.len = (uint64_t)(o.at - m->literal);
}

static void put_groups_head(struct format_maker *m)
{
	const struct format_table *t = m->plan.table.of;
	struct thrift_out o = { .at = format_put(m, 0, 0), .id = { 2 } };

	put_i64(&o, 3, t->nr_rows);
	thrift_put_list(&o, 4, 12, format_table_groups(t));
	m->piece.len = (uint64_t)(o.at - m->literal);
}

static void put_group_head(struct format_maker *m)
{
	struct thrift_out o = { .at = format_put(m, 0, 0) };

	thrift_put_list(&o, 1, 12, m->plan.table.of->nr_columns);
	m->piece.len = (uint64_t)(o.at - m->literal);
}

static void parquet_put_chunk(struct format_maker *m, const struct format_column *c, uint64_t rows)
{
	struct thrift_out o = { .at = format_put(m, 0, 0) };
	uint64_t len = chunk_len(c, rows);
	bool list = format_column_is_list(c);

	put_i64(&o, 2, 0);
	put_struct(&o, 3);
	put_i32(&o, 1, format_type_traits(c->type)->physical);
	thrift_put_list(&o, 2, 5, list ? 2 : 1); /* encodings: plain, and run-length for levels */
	*o.at++ = 0;
	if (list)
		*o.at++ = 3 << 1;
	thrift_put_list(&o, 3, 8, list ? 3 : 1);
	thrift_put_text(&o, c->name);
	if (list) {
		thrift_put_text(&o, "list");
		thrift_put_text(&o, "element");
	}
	put_i32(&o, 4, 0); /* not compressed */
	put_i64(&o, 5, rows * format_column_values(c));
	put_i64(&o, 6, len);
	put_i64(&o, 7, len);
	put_i64(&o, 9, m->plan.table.off);
	thrift_put_end(&o);
	thrift_put_end(&o);
	m->piece.len = (uint64_t)(o.at - m->literal);
	m->plan.table.off += len;
}

static void put_group_tail(struct format_maker *m)
{
	struct thrift_out o = { .at = format_put(m, 0, 0), .id = { 1 } };
	uint64_t len = m->plan.table.off - m->plan.table.start;

	put_i64(&o, 2, len);
	put_i64(&o, 3, format_table_rows_of(m->plan.table.of, m->plan.table.group));
	put_i64(&o, 5, m->plan.table.start);
	put_i64(&o, 6, len);
	thrift_put_end(&o);
	m->piece.len = (uint64_t)(o.at - m->literal);
}

static void put_footer_tail(struct format_maker *m)
{
	struct thrift_out o = { .at = format_put(m, 0, 0), .id = { 4 } };
	uint64_t len;

	put_string(&o, 6, "shoal");
	thrift_put_end(&o);
	len = m->plan.table.footer + (uint64_t)(o.at - m->literal);
	o.at = format_le32(o.at, len);
	o.at = format_text(o.at, "PAR1");
	m->piece.len = (uint64_t)(o.at - m->literal);
}

/* ---- The order of pieces ---- */

enum {
	AT_START,
	AT_PAGE,
	AT_LEVELS,
	AT_DEFINITION,
	AT_VALUES,
	AT_FOOTER,
	AT_SCHEMA,
	AT_GROUPS,
	AT_GROUP,
	AT_CHUNK,
	AT_GROUP_TAIL,
	AT_TAIL,
	AT_END,
};

static void parquet_plan(struct format_maker *m)
{
	m->plan.table = (struct format_table_plan){ .of = m->spec.table };
	m->step = AT_START;
}

/* After a page: go to the next page, column or group. */
static void next_page(struct format_maker *m, uint64_t rows)
{
	struct format_table_plan *p = &m->plan.table;

	p->row += rows;
	m->step = AT_PAGE;
	if (p->row < format_table_rows_of(p->of, p->group))
		return;
	p->row = 0;
	if (++p->column < p->of->nr_columns)
		return;
	p->column = 0;
	p->nr_ended = ++p->group;
	if (p->group == format_table_groups(p->of))
		m->step = AT_FOOTER;
}

static void page_piece(struct format_maker *m)
{
	struct format_table_plan *p = &m->plan.table;
	const struct format_column *c = &p->of->column[p->column];
	uint64_t rows = u64_min(rows_per_page(c), format_table_rows_of(p->of, p->group) - p->row);
	uint8_t *at;

	switch (m->step) {
	case AT_PAGE:
		if (p->row == 0 && p->column == 0)
			p->nr_started++;
		at = put_page_header(format_put(m, 0, 0), c, rows);
		m->step = AT_VALUES;
		if (format_column_is_list(c)) {
			at = format_le32(at, rows * row_levels_len(c));
			m->step = AT_LEVELS;
		}
		m->piece.len = (uint64_t)(at - m->literal);
		break;
	case AT_LEVELS:
		format_put_content(m, rows * row_levels_len(c), fill_levels,
				   FORMAT_CELL / row_levels_len(c) * row_levels_len(c), 0);
		m->step = AT_DEFINITION;
		break;
	case AT_DEFINITION:
		at = format_put(m, 0, 0);
		at = format_le32(at, varint_len(rows * format_column_values(c) << 1) + 1);
		at = thrift_put_varint(at, rows * format_column_values(c) << 1);
		*at++ = 1;
		m->piece.len = (uint64_t)(at - m->literal);
		m->step = AT_VALUES;
		break;
	default:
		put_values(m, c, rows);
		/* The fill functions need the column until the piece has been read. */
		p->page_rows = rows;
		break;
	}
}

static void parquet_footer_piece(struct format_maker *m)
{
	struct format_table_plan *p = &m->plan.table;

	switch (m->step) {
	case AT_FOOTER:
		parquet_put_footer_head(m);
		p->group = p->column = 0;
		p->off = 4;
		m->step = AT_SCHEMA;
		break;
	case AT_SCHEMA:
		put_schema_column(m, &p->of->column[p->column++]);
		if (p->column == p->of->nr_columns)
			m->step = AT_GROUPS;
		break;
	case AT_GROUPS:
		put_groups_head(m);
		m->step = AT_GROUP;
		break;
	case AT_GROUP:
		put_group_head(m);
		p->start = p->off;
		p->column = 0;
		m->step = AT_CHUNK;
		break;
	case AT_CHUNK:
		parquet_put_chunk(m, &p->of->column[p->column],
				  format_table_rows_of(p->of, p->group));
		if (++p->column == p->of->nr_columns)
			m->step = AT_GROUP_TAIL;
		break;
	case AT_GROUP_TAIL:
		put_group_tail(m);
		m->step = ++p->group < format_table_groups(p->of) ? AT_GROUP : AT_TAIL;
		break;
	default:
		put_footer_tail(m);
		m->step = AT_END;
		break;
	}
	p->footer += m->piece.len;
}

static void parquet_next(struct format_maker *m)
{
	if (m->plan.table.page_rows) {
		next_page(m, m->plan.table.page_rows);
		m->plan.table.page_rows = 0;
	}
	if (m->step == AT_END)
		return;
	if (m->step == AT_START) {
		format_text(format_put(m, 4, 0), "PAR1");
		m->step = AT_PAGE;
	} else if (m->step < AT_FOOTER) {
		page_piece(m);
	} else {
		parquet_footer_piece(m);
	}
}

static uint64_t parquet_least(uint64_t nr_samples)
{
	(void)nr_samples;
	return 12;
}

const struct format format_parquet = {
	.name = "parquet",
	.has_table = true,
	.least = parquet_least,
	.plan = parquet_plan,
	.next = parquet_next,
};
