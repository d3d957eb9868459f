/*
 * Write Arrow IPC files: a schema, record batches, and a footer with the schema again and the
 * places of the batches. The metadata are FlatBuffers, laid out by hand from front to back: every
 * table follows its vtable, offsets point forward, and the length of every part is a multiple of 8
 * bytes. So everything is generated in the order of the file, for any number of columns and
 * batches.
 */
#include "format/format_private.h"
#include "format/table.h"

#define PREFIX       8u              /* of a message: a mark and the length of its metadata */
#define MESSAGE      40u             /* the root and the table Message */
#define BATCH_HEAD   (MESSAGE + 40u) /* then RecordBatch and the length of its nodes */
#define SCHEMA_HEAD  20u
#define FOOTER_HEAD  48u
#define FIELD        72u /* before its name */
#define FIELD_TABLE  16u /* the table Field in it */
#define BLOCK        24u
#define TYPE_SCHEMA  1u
#define TYPE_BATCH   3u
#define VERSION      4u /* V5 */
#define LIST_TYPE    16u
#define SCHEMA_TABLE 8u

static uint64_t arrow_pad8(uint64_t len)
{
	return (len + 7) & ~UINT64_C(7);
}

/* ---- Lengths ---- */

static uint64_t arrow_name_len(const char *name)
{
	return arrow_pad8(4 + strlen(name) + 1);
}

static uint64_t field_len(const struct format_column *c)
{
	uint64_t len = FIELD + arrow_name_len(c->name);

	return format_column_is_list(c) ? len + FIELD + arrow_name_len("item") : len;
}

static uint64_t schema_len(const struct format_table *t)
{
	uint64_t len = arrow_pad8(SCHEMA_HEAD + 4 * t->nr_columns);

	for (size_t i = 0; i < t->nr_columns; i++)
		len += field_len(&t->column[i]);
	return len;
}

static uint64_t nr_nodes(const struct format_table *t)
{
	uint64_t nr = t->nr_columns;

	for (size_t i = 0; i < t->nr_columns; i++)
		nr += format_column_is_list(&t->column[i]);
	return nr;
}

/* Every node has an empty buffer for validity; a string has one more, for its offsets. */
static uint64_t nr_buffers(const struct format_table *t)
{
	uint64_t nr = nr_nodes(t) + t->nr_columns;

	for (size_t i = 0; i < t->nr_columns; i++)
		nr += t->column[i].type == FORMAT_STRING;
	return nr;
}

static uint64_t data_len(const struct format_column *c, uint64_t rows)
{
	uint64_t nr = rows * c->size;

	if (c->type == FORMAT_BOOL)
		return (nr + 7) / 8;
	if (c->type == FORMAT_STRING)
		return nr * FORMAT_STRING_LEN;
	return c->type == FORMAT_BINARY ? nr : nr * format_type_traits(c->type)->width;
}

static uint64_t offsets_len(const struct format_column *c, uint64_t rows)
{
	return c->type == FORMAT_STRING ? 4 * (rows * c->size + 1) : 0;
}

static uint64_t body_len(const struct format_table *t, uint64_t rows)
{
	uint64_t len = 0;

	for (size_t i = 0; i < t->nr_columns; i++)
		len += arrow_pad8(offsets_len(&t->column[i], rows)) +
		       arrow_pad8(data_len(&t->column[i], rows));
	return len;
}

static uint64_t batch_meta_len(const struct format_table *t)
{
	return BATCH_HEAD + 16 * nr_nodes(t) + 8 + 16 * nr_buffers(t);
}

static uint64_t schema_message_len(const struct format_table *t)
{
	return PREFIX + MESSAGE + schema_len(t);
}

/* ---- Parts of metadata ---- */

/* A vtable: its own length, that of its table, the places of the fields in it. */
static uint8_t *put_vtable(uint8_t *p, const uint16_t *numbers, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		p = format_le16(p, numbers[i]);
	return p;
}

#define PUT_VTABLE(p, ...)                                 \
	put_vtable((p), (const uint16_t[]){ __VA_ARGS__ }, \
		   sizeof((const uint16_t[]){ __VA_ARGS__ }) / sizeof(uint16_t))

/* Message: version, header_type, header, bodyLength. @header is the header's table. */
static uint8_t *put_message(uint8_t *p, uint64_t meta, unsigned type, uint64_t header,
			    uint64_t body)
{
	p = format_le32(p, 0xffffffff);
	p = format_le32(p, meta);
	p = format_le32(p, 16);
	p = PUT_VTABLE(p, 12, 24, 16, 18, 4, 8);
	p = format_le32(p, 12);
	p = format_le32(p, header - 20);
	p = format_le64(p, body);
	p = format_le16(p, VERSION);
	*p++ = (uint8_t)type;
	memset(p, 0, 5);
	return p + 5;
}

/* Schema: endianness (little, by default), fields. */
static void put_schema_head(struct format_maker *m, uint8_t *p)
{
	p = PUT_VTABLE(p, 8, 8, 0, 4);
	p = format_le32(p, 8);
	p = format_le32(p, 4);
	p = format_le32(p, m->plan.table.of->nr_columns);
	m->piece.len = (uint64_t)(p - m->literal);
	m->plan.table.column = 0;
	m->plan.table.off = arrow_pad8(SCHEMA_HEAD + 4 * m->plan.table.of->nr_columns);
}

/* The offsets of fields, each from where it is written. */
static void put_field_offsets(struct format_maker *m)
{
	struct format_table_plan *plan = &m->plan.table;
	uint8_t *p = format_put(m, 0, 0);
	size_t nr = plan->of->nr_columns;

	while (plan->column < nr && (size_t)(p - m->literal) + 16 <= FORMAT_LITERAL_MAX) {
		p = format_le32(p, plan->off + FIELD_TABLE - (SCHEMA_HEAD + 4 * plan->column));
		plan->off += field_len(&plan->of->column[plan->column++]);
	}
	if (plan->column == nr && nr % 2 == 0) /* 20 + 4 nr is not a multiple of 8 */
		p = format_le32(p, 0);
	m->piece.len = (uint64_t)(p - m->literal);
}

/* A type: a table of up to two numbers. */
static uint8_t *put_type(uint8_t *p, const struct format_column *c, bool list)
{
	const struct format_type_traits *t = format_type_traits(c->type);

	if (list || c->type == FORMAT_BINARY) {
		p = PUT_VTABLE(p, 8, 12, 4, 0);
		p = format_le32(format_le32(p, 8), c->size);
		return format_le64(p, 0);
	}
	if (t->arrow_type == 2) { /* Int: bits, whether it has a sign */
		p = PUT_VTABLE(p, 8, 12, 4, 8);
		p = format_le32(format_le32(p, 8), 8 * t->width);
		return format_le64(p, t->is_signed);
	}
	if (t->arrow_type == 3) { /* FloatingPoint: 0 half, 1 single, 2 double */
		p = PUT_VTABLE(p, 8, 12, 4, 0);
		p = format_le32(format_le32(p, 8), t->width / 4);
		return format_le64(p, 0);
	}
	p = PUT_VTABLE(p, 8, 12, 0, 0); /* Bool, Utf8 */
	p = format_le32(format_le32(p, 8), 0);
	return format_le64(p, 0);
}

/* Field: name, nullable (no, by default), type_type, type, dictionary, children. */
static uint8_t *arrow_put_field(uint8_t *p, const struct format_column *c, const char *name,
				bool list)
{
	uint64_t named = arrow_name_len(name);

	p = PUT_VTABLE(p, 16, 20, 4, 0, 16, 8, 0, 12);
	p = format_le32(p, 16);
	p = format_le32(p, FIELD - 20);
	p = format_le32(p, 48 - 24);
	p = format_le32(p, 64 - 28);
	p = format_le64(p, list ? LIST_TYPE : format_type_traits(c->type)->arrow_type);
	p = put_type(p, c, list);
	p = format_le32(p, list);
	p = format_le32(p, list ? FIELD + named + FIELD_TABLE - 68 : 0);
	memset(p, 0, (size_t)named);
	format_text(format_le32(p, strlen(name)), name);
	return p + named;
}

static void arrow_put_column(struct format_maker *m)
{
	const struct format_column *c = &m->plan.table.of->column[m->plan.table.column++];
	bool list = format_column_is_list(c);
	uint8_t *p = arrow_put_field(format_put(m, 0, 0), c, c->name, list);

	if (list)
		p = arrow_put_field(p, c, "item", false);
	m->piece.len = (uint64_t)(p - m->literal);
}

/* ---- A record batch ---- */

/* RecordBatch: length, nodes, buffers. */
static void put_batch_head(struct format_maker *m, uint64_t rows)
{
	const struct format_table *t = m->plan.table.of;
	uint64_t nodes = 16 * nr_nodes(t);
	uint8_t *p = put_message(format_put(m, 0, 0), batch_meta_len(t), TYPE_BATCH, 52,
				 body_len(t, rows));

	p = PUT_VTABLE(p, 10, 20, 12, 4, 8, 0);
	p = format_le32(p, 12);
	p = format_le32(p, 76 - 56);
	p = format_le32(p, 84 + nodes - 60);
	p = format_le64(p, rows);
	p = format_le32(p, 0);
	p = format_le32(p, nr_nodes(t));
	m->piece.len = (uint64_t)(p - m->literal);
	m->plan.table.column = 0;
}

static void put_nodes(struct format_maker *m, uint64_t rows)
{
	struct format_table_plan *plan = &m->plan.table;
	uint8_t *p = format_put(m, 0, 0);

	while (plan->column < plan->of->nr_columns &&
	       (size_t)(p - m->literal) + 40 <= FORMAT_LITERAL_MAX) {
		const struct format_column *c = &plan->of->column[plan->column++];

		p = format_le64(format_le64(p, rows), 0);
		if (format_column_is_list(c))
			p = format_le64(format_le64(p, rows * c->size), 0);
	}
	if (plan->column == plan->of->nr_columns) {
		p = format_le32(p, 0);
		p = format_le32(p, nr_buffers(plan->of));
	}
	m->piece.len = (uint64_t)(p - m->literal);
}

static uint8_t *put_buffer(uint8_t *p, uint64_t *off, uint64_t len)
{
	p = format_le64(format_le64(p, *off), len);
	*off += arrow_pad8(len);
	return p;
}

static void put_buffers(struct format_maker *m, uint64_t rows)
{
	struct format_table_plan *plan = &m->plan.table;
	uint8_t *p = format_put(m, 0, 0);

	while (plan->column < plan->of->nr_columns &&
	       (size_t)(p - m->literal) + 64 <= FORMAT_LITERAL_MAX) {
		const struct format_column *c = &plan->of->column[plan->column++];

		p = put_buffer(p, &plan->off, 0);
		if (format_column_is_list(c))
			p = put_buffer(p, &plan->off, 0);
		if (c->type == FORMAT_STRING)
			p = put_buffer(p, &plan->off, offsets_len(c, rows));
		p = put_buffer(p, &plan->off, data_len(c, rows));
	}
	m->piece.len = (uint64_t)(p - m->literal);
}

static void fill_offsets(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	uint64_t first = cell * (FORMAT_CELL / 4);

	(void)m;
	for (size_t i = 0; i < len / 4; i++)
		format_le32(out + 4 * i, (first + i) * FORMAT_STRING_LEN);
}

#define STRINGS_CELL (FORMAT_CELL / FORMAT_STRING_LEN * FORMAT_STRING_LEN)

static void fill_text(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	uint64_t first = cell * (STRINGS_CELL / FORMAT_STRING_LEN);

	for (size_t i = 0; i < len / FORMAT_STRING_LEN; i++)
		format_string_value(format_mix(m->piece.key, first + i),
				    out + i * FORMAT_STRING_LEN);
}

/* ---- The order of pieces ---- */

enum {
	AT_START,
	AT_SCHEMA,
	AT_OFFSETS,
	AT_FIELDS,
	AT_BATCH,
	AT_NODES,
	AT_BUFFERS,
	AT_STRING_OFFSETS,
	AT_STRING_PAD,
	AT_DATA,
	AT_DATA_PAD,
	AT_FOOTER,
	AT_BLOCKS,
	AT_SCHEMA_AGAIN,
	AT_TAIL,
	AT_END,
};

static void arrow_plan(struct format_maker *m)
{
	m->plan.table = (struct format_table_plan){ .of = m->spec.table };
	m->step = AT_START;
}

static void put_zeros(struct format_maker *m, uint64_t len)
{
	memset(format_put(m, (size_t)(arrow_pad8(len) - len), 0), 0, 8);
}

static void data_piece(struct format_maker *m, uint64_t rows)
{
	struct format_table_plan *plan = &m->plan.table;
	const struct format_column *c = &plan->of->column[plan->column];

	switch (m->step) {
	case AT_STRING_OFFSETS:
		format_put_content(m, offsets_len(c, rows), fill_offsets, FORMAT_CELL, 0);
		m->step = AT_STRING_PAD;
		break;
	case AT_STRING_PAD:
		put_zeros(m, offsets_len(c, rows));
		m->step = AT_DATA;
		break;
	case AT_DATA:
		if (c->type == FORMAT_STRING)
			format_put_content(m, data_len(c, rows), fill_text, STRINGS_CELL, 0);
		else
			format_put_random(m, data_len(c, rows), 0);
		m->step = AT_DATA_PAD;
		break;
	default:
		put_zeros(m, data_len(c, rows));
		m->step = AT_STRING_OFFSETS;
		if (++plan->column < plan->of->nr_columns)
			break;
		m->step = ++plan->group < format_table_groups(plan->of) ? AT_BATCH : AT_FOOTER;
		break;
	}
}

static void batch_piece(struct format_maker *m)
{
	struct format_table_plan *plan = &m->plan.table;
	uint64_t rows = format_table_rows_of(plan->of, plan->group);

	switch (m->step) {
	case AT_BATCH:
		plan->nr_ended = plan->group;
		plan->nr_started++;
		put_batch_head(m, rows);
		m->step = AT_NODES;
		break;
	case AT_NODES:
		put_nodes(m, rows);
		if (plan->column < plan->of->nr_columns)
			break;
		plan->column = 0;
		plan->off = 0;
		m->step = AT_BUFFERS;
		break;
	case AT_BUFFERS:
		put_buffers(m, rows);
		if (plan->column < plan->of->nr_columns)
			break;
		plan->column = 0;
		m->step = AT_STRING_OFFSETS;
		break;
	default:
		data_piece(m, rows);
		break;
	}
}

/* The end of the stream, then Footer: version, schema, dictionaries, recordBatches. */
static void arrow_put_footer_head(struct format_maker *m)
{
	uint64_t nr = format_table_groups(m->plan.table.of);
	uint8_t *p = format_put(m, 0, 0);

	p = format_le32(p, 0xffffffff);
	p = format_le32(p, 0);
	p = format_le32(p, 16);
	p = PUT_VTABLE(p, 12, 20, 12, 4, 16, 8);
	p = format_le32(p, 12);
	p = format_le32(p, FOOTER_HEAD + BLOCK * nr + SCHEMA_TABLE - 20);
	p = format_le32(p, 44 - 24);
	p = format_le32(p, VERSION);
	p = format_le32(p, 4); /* to the empty list of dictionaries */
	p = format_le64(p, 0);
	p = format_le32(p, nr);
	m->piece.len = (uint64_t)(p - m->literal);
	m->plan.table.group = 0;
	m->plan.table.off = PREFIX + schema_message_len(m->plan.table.of);
}

static void put_blocks(struct format_maker *m)
{
	struct format_table_plan *plan = &m->plan.table;
	uint64_t nr = format_table_groups(plan->of), meta = PREFIX + batch_meta_len(plan->of);
	uint8_t *p = format_put(m, 0, 0);

	while (plan->group < nr && (size_t)(p - m->literal) + BLOCK <= FORMAT_LITERAL_MAX) {
		uint64_t body = body_len(plan->of, format_table_rows_of(plan->of, plan->group++));

		p = format_le64(format_le64(p, plan->off), meta);
		p = format_le64(p, body);
		plan->off += meta + body;
	}
	m->piece.len = (uint64_t)(p - m->literal);
}

static void arrow_footer_piece(struct format_maker *m)
{
	struct format_table_plan *plan = &m->plan.table;

	switch (m->step) {
	case AT_FOOTER:
		plan->nr_ended = plan->group;
		arrow_put_footer_head(m);
		m->step = AT_BLOCKS;
		break;
	case AT_BLOCKS:
		put_blocks(m);
		if (plan->group == format_table_groups(plan->of))
			m->step = AT_SCHEMA_AGAIN;
		break;
	case AT_SCHEMA_AGAIN:
		put_schema_head(m, format_put(m, 0, 0));
		plan->in_footer = true;
		m->step = AT_OFFSETS;
		break;
	default:
		format_text(format_le32(format_put(m, 10, 0),
					FOOTER_HEAD + BLOCK * format_table_groups(plan->of) +
						schema_len(plan->of)),
			    "ARROW1");
		m->step = AT_END;
		break;
	}
}

static void schema_piece(struct format_maker *m)
{
	struct format_table_plan *plan = &m->plan.table;
	const struct format_table *t = plan->of;

	switch (m->step) {
	case AT_START:
		memset(format_put(m, 8, 0), 0, 8);
		format_text(m->literal, "ARROW1");
		m->step = AT_SCHEMA;
		break;
	case AT_SCHEMA:
		put_schema_head(m, put_message(format_put(m, 0, 0), MESSAGE + schema_len(t),
					       TYPE_SCHEMA, MESSAGE + SCHEMA_TABLE, 0));
		m->step = AT_OFFSETS;
		break;
	case AT_OFFSETS:
		put_field_offsets(m);
		if (plan->column < t->nr_columns)
			break;
		plan->column = 0;
		m->step = AT_FIELDS;
		break;
	default:
		arrow_put_column(m);
		if (plan->column == t->nr_columns)
			m->step = plan->in_footer ? AT_TAIL : AT_BATCH;
		break;
	}
}

static void arrow_next(struct format_maker *m)
{
	if (m->step == AT_END)
		return;
	if (m->step < AT_BATCH)
		schema_piece(m);
	else if (m->step < AT_FOOTER)
		batch_piece(m);
	else
		arrow_footer_piece(m);
}

static uint64_t arrow_least(uint64_t nr_samples)
{
	(void)nr_samples;
	return 12;
}

const struct format format_arrow = {
	.name = "arrow",
	.has_table = true,
	.least = arrow_least,
	.plan = arrow_plan,
	.next = arrow_next,
};
