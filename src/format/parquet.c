/*
 * Parquet: the row groups, from the footer. The footer is a FileMetaData in Thrift's compact
 * protocol. It is read from front to back, once, whatever its length; of its millions of bytes only
 * the few fields are kept that locate a row group. Field numbers are those of parquet.thrift.
 */
#include <inttypes.h>

#include "format/bytes.h"
#include "format/samples_private.h"

#define NESTING 32u /* Parquet's own structures need 7 */
#define TAIL    8u  /* length of the footer, magic */

enum thrift_type {
	THRIFT_TRUE = 1,
	THRIFT_FALSE,
	THRIFT_I8,
	THRIFT_I16,
	THRIFT_I32,
	THRIFT_I64,
	THRIFT_DOUBLE,
	THRIFT_BINARY,
	THRIFT_LIST,
	THRIFT_SET,
	THRIFT_MAP,
	THRIFT_STRUCT,
};

/* ---- Thrift ---- */

static void thrift_bad(struct format_bytes *b, const char *what)
{
	if (b->rc == 0)
		b->rc = err_set(b->err, -EBADMSG, "damaged footer: %s at %" PRIu64, what,
				format_bytes_off(b));
	b->at = b->fill;
	b->next = b->end; /* an upper bound for every loop */
}

static uint64_t thrift_varint(struct format_bytes *b)
{
	uint64_t v = 0;

	if (LIKELY(b->at < b->fill && b->buf[b->at] < 0x80))
		return b->buf[b->at++];
	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = format_byte(b);

		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return v;
	}
	thrift_bad(b, "a number that is too long");
	return 0;
}

static int64_t thrift_signed(uint64_t varint)
{
	return (int64_t)(varint >> 1 ^ (~(varint & 1) + 1));
}

static int64_t thrift_number(struct format_bytes *b)
{
	return thrift_signed(thrift_varint(b));
}

/* The next field of a structure; 0 at its end. @id is that of the field before: 16 bits. */
static unsigned thrift_field(struct format_bytes *b, int64_t *id)
{
	uint8_t head = format_byte(b);

	if (head == 0 || b->rc < 0)
		return 0;
	*id = head >> 4 ? *id + (head >> 4) : thrift_number(b);
	if (*id < INT16_MIN || *id > INT16_MAX) {
		thrift_bad(b, "a field whose number is too large");
		return 0;
	}
	return head & 15;
}

/* The number of elements of a list, and their type. Every element takes at least a byte. */
static uint64_t thrift_list(struct format_bytes *b, unsigned *ret_type)
{
	uint8_t head = format_byte(b);
	uint64_t nr = head >> 4;

	*ret_type = head & 15;
	if (nr == 15)
		nr = thrift_varint(b);
	if (nr > format_bytes_left(b)) {
		thrift_bad(b, "a list that is longer than the footer");
		return 0;
	}
	return nr;
}

/*
 * Most fields are skipped, and most lie in the buffer as a whole: then bytes need not be taken one
 * by one. Skip a field at @p: returns its end, or NULL if it does not end before @end, or is
 * damaged, which thrift_skip() finds out.
 */
static const uint8_t *skip_buffered(const uint8_t *p, const uint8_t *end, unsigned type,
				    unsigned depth);

static inline const uint8_t *varint_buffered(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;

	if (LIKELY(p < end && *p < 0x80)) {
		*ret = *p;
		return p + 1;
	}
	for (unsigned shift = 0; p < end && shift < 64; shift += 7) {
		v |= (uint64_t)(*p & 0x7f) << shift;
		if (!(*p++ & 0x80)) {
			*ret = v;
			return p;
		}
	}
	return NULL;
}

static const uint8_t *skip_list_buffered(const uint8_t *p, const uint8_t *end, unsigned depth)
{
	unsigned type;
	uint64_t nr;

	if (p == end)
		return NULL;
	type = *p & 15;
	nr = *p++ >> 4;
	if (nr == 15)
		p = varint_buffered(p, end, &nr);
	for (uint64_t i = 0; p && i < nr; i++)
		if (type == THRIFT_TRUE || type == THRIFT_FALSE)
			p = p < end ? p + 1 : NULL;
		else
			p = skip_buffered(p, end, type, depth + 1);
	return p;
}

static const uint8_t *skip_struct_buffered(const uint8_t *p, const uint8_t *end, unsigned depth)
{
	while (p && p < end) {
		uint8_t head = *p++;
		unsigned type = head & 15;
		uint64_t v;

		if (head == 0)
			return p;
		if (!(head >> 4))
			p = varint_buffered(p, end, &v);
		if (p && type >= THRIFT_I16 && type <= THRIFT_I64 && depth < NESTING)
			p = varint_buffered(p, end, &v);
		else if (p)
			p = skip_buffered(p, end, type, depth + 1);
	}
	return NULL;
}

static const uint8_t *skip_buffered(const uint8_t *p, const uint8_t *end, unsigned type,
				    unsigned depth)
{
	uint64_t nr = 0;

	if (depth > NESTING)
		return NULL;
	switch (type) {
	case THRIFT_TRUE:
	case THRIFT_FALSE:
		return p;
	case THRIFT_I8:
		return p < end ? p + 1 : NULL;
	case THRIFT_I16:
	case THRIFT_I32:
	case THRIFT_I64:
		return varint_buffered(p, end, &nr);
	case THRIFT_DOUBLE:
		return end - p >= 8 ? p + 8 : NULL;
	case THRIFT_BINARY:
		p = varint_buffered(p, end, &nr);
		return p && nr <= (uint64_t)(end - p) ? p + nr : NULL;
	case THRIFT_LIST:
	case THRIFT_SET:
		return skip_list_buffered(p, end, depth);
	case THRIFT_STRUCT:
		return skip_struct_buffered(p, end, depth);
	default:
		return NULL;
	}
}

static void thrift_skip(struct format_bytes *b, unsigned type, unsigned depth);

static void skip_elements(struct format_bytes *b, unsigned type, uint64_t nr, unsigned depth)
{
	for (uint64_t i = 0; i < nr && b->rc == 0; i++)
		if (type == THRIFT_TRUE || type == THRIFT_FALSE)
			(void)format_byte(b);
		else
			thrift_skip(b, type, depth + 1);
}

static void skip_struct(struct format_bytes *b, unsigned depth)
{
	int64_t id = 0;
	unsigned type;

	while ((type = thrift_field(b, &id)) > 0)
		thrift_skip(b, type, depth + 1);
}

static void skip_map(struct format_bytes *b, unsigned depth)
{
	uint64_t nr = thrift_varint(b);
	uint8_t types = nr ? format_byte(b) : 0;

	if (nr > format_bytes_left(b))
		thrift_bad(b, "a map that is longer than the footer");
	for (uint64_t i = 0; i < nr && b->rc == 0; i++) {
		skip_elements(b, types >> 4, 1, depth);
		skip_elements(b, types & 15, 1, depth);
	}
}

static void thrift_skip(struct format_bytes *b, unsigned type, unsigned depth)
{
	const uint8_t *end = skip_buffered(b->buf + b->at, b->buf + b->fill, type, depth);
	uint64_t nr;

	if (end) {
		b->at = (size_t)(end - b->buf);
		return;
	}
	if (depth > NESTING) {
		thrift_bad(b, "structures nested too deeply");
		return;
	}
	switch (type) {
	case THRIFT_TRUE:
	case THRIFT_FALSE:
		break;
	case THRIFT_I8:
		(void)format_byte(b);
		break;
	case THRIFT_I16:
	case THRIFT_I32:
	case THRIFT_I64:
		(void)thrift_varint(b);
		break;
	case THRIFT_DOUBLE:
		format_bytes_skip(b, 8);
		break;
	case THRIFT_BINARY:
		nr = thrift_varint(b);
		format_bytes_skip(b, nr);
		break;
	case THRIFT_LIST:
	case THRIFT_SET:
		nr = thrift_list(b, &type);
		skip_elements(b, type, nr, depth);
		break;
	case THRIFT_MAP:
		skip_map(b, depth);
		break;
	case THRIFT_STRUCT:
		skip_struct(b, depth);
		break;
	default:
		thrift_bad(b, "a field of an unknown type");
		break;
	}
}

static int64_t take_i64(struct format_bytes *b, unsigned type)
{
	if (type >= THRIFT_I16 && type <= THRIFT_I64)
		return thrift_number(b);
	thrift_bad(b, "a field of another type than a number");
	return 0;
}

/* ---- The columns of a group ---- */

#define SPANS_MAX 32u

/*
 * Bytes of columns: all of [start, end) if @len is as many, otherwise some of it. Columns without
 * gaps between them, in any order, are one span.
 */
struct parquet_span {
	uint64_t start, end, len;
};

/* A group: it extends from the first byte of any column to the last of any. */
struct parquet_group {
	uint64_t start, end;
	struct parquet_span span[SPANS_MAX]; /* sorted, with gaps between them */
	unsigned nr;
};

/* Join span @i and the next one. */
static void join_next(struct parquet_group *g, unsigned i)
{
	g->span[i].end = g->span[i + 1].end;
	g->span[i].len += g->span[i + 1].len;
	g->nr--;
	memmove(&g->span[i + 1], &g->span[i + 2], (g->nr - i - 1) * sizeof(g->span[0]));
}

/* Make room for another span: the two with the smallest gap become one, which has a gap in it. */
static void join_nearest(struct parquet_group *g)
{
	unsigned at = 0;

	for (unsigned i = 1; i + 1 < g->nr; i++)
		if (g->span[i + 1].start - g->span[i].end < g->span[at + 1].start - g->span[at].end)
			at = i;
	join_next(g, at);
}

/*
 * Add the bytes of a column. False if some of them are another column's; in a group with more gaps
 * than there are spans, only if the columns have more bytes than there are.
 */
static bool group_add(struct parquet_group *g, uint64_t start, uint64_t len)
{
	uint64_t end = start + len;
	struct parquet_span *s;
	unsigned i = 0;

	g->start = u64_min(g->start, start);
	g->end = u64_max(g->end, end);
	if (len == 0)
		return true;
	if (g->nr == SPANS_MAX)
		join_nearest(g);
	while (i < g->nr && g->span[i].end < start)
		i++;
	s = &g->span[i];
	if (i == g->nr || end < s->start) {
		memmove(s + 1, s, (g->nr - i) * sizeof(*s));
		*s = (struct parquet_span){ start, end, len };
		g->nr++;
		return true;
	}
	if (start < s->end && end > s->start && s->len == s->end - s->start)
		return false;
	s->start = u64_min(s->start, start);
	s->end = u64_max(s->end, end);
	s->len += len;
	while (i + 1 < g->nr && g->span[i + 1].start <= s->end) {
		if (g->span[i + 1].start < s->end)
			return false;
		join_next(g, i);
	}
	return s->len <= s->end - s->start;
}

/* ---- The fields that matter ---- */

struct parquet {
	struct samples_search *search;
	struct format_bytes *bytes;
	uint64_t data_end; /* where the footer begins */
	uint64_t rows;     /* rows of the groups so far */
	int64_t rows_said; /* rows according to the file; -1: not known yet */
};

/* ColumnMetaData: 7 total_compressed_size, 9 data_page_offset, 11 dictionary_page_offset. */
struct parquet_place {
	int64_t len, data, dictionary;
};

static void parquet_take_place(struct format_bytes *b, struct parquet_place *c)
{
	int64_t id = 0;
	unsigned type;

	while ((type = thrift_field(b, &id)) > 0)
		if (id == 7)
			c->len = take_i64(b, type);
		else if (id == 9)
			c->data = take_i64(b, type);
		else if (id == 11)
			c->dictionary = take_i64(b, type);
		else
			thrift_skip(b, type, 4);
}

/* The same of a structure that lies in the buffer as a whole, as most do: a footer is little else,
 * and this is twice as fast. False if it does not, or is unusual. */
static bool parquet_take_buffered_place(struct format_bytes *b, struct parquet_place *c)
{
	const uint8_t *p = b->buf + b->at, *end = b->buf + b->fill;
	unsigned id = 0;

	while (p && p < end) {
		uint8_t head = *p++;
		unsigned type = head & 15;
		uint64_t v = 0;

		if (head == 0) {
			b->at = (size_t)(p - b->buf);
			return true;
		}
		if (!(head >> 4))
			return false;
		id += head >> 4;
		if (type < THRIFT_I16 || type > THRIFT_I64) {
			p = id == 7 || id == 9 || id == 11 ? NULL : skip_buffered(p, end, type, 4);
			continue;
		}
		p = varint_buffered(p, end, &v);
		if (id == 7)
			c->len = thrift_signed(v);
		else if (id == 9)
			c->data = thrift_signed(v);
		else if (id == 11)
			c->dictionary = thrift_signed(v);
	}
	return false;
}

/*
 * Old writers wrote 0 for no dictionary; pyarrow writes 0 for no data pages, in a group of no rows.
 * A column without any pages has no place.
 */
static void parquet_column(struct parquet *p, struct parquet_group *g)
{
	const struct parquet_place none = { .len = -1, .data = -1 };
	struct parquet_place c = none;
	int64_t from;

	if (!parquet_take_buffered_place(p->bytes, &c)) {
		c = none;
		parquet_take_place(p->bytes, &c);
	}
	from = c.dictionary > 0 && (c.dictionary < c.data || c.data == 0) ? c.dictionary : c.data;
	if (from == 0 && c.len == 0)
		return;
	if (from < 4 || c.len < 0 || !format_inside((uint64_t)from, (uint64_t)c.len, p->data_end)) {
		thrift_bad(p->bytes, "a column that lies outside the data");
		return;
	}
	if (!group_add(g, (uint64_t)from, (uint64_t)c.len))
		thrift_bad(p->bytes, "a column that overlaps another one");
}

static void refuse_encrypted(struct format_bytes *b)
{
	if (b->rc == 0)
		b->rc = err_set(b->err, -EBADMSG, "its columns are encrypted");
}

/* ColumnChunk: 1 file_path, 3 meta_data, 8 crypto_metadata. */
static void parquet_chunk(struct parquet *p, struct parquet_group *g)
{
	struct format_bytes *b = p->bytes;
	bool found = false;
	int64_t id = 0;
	unsigned type;

	while ((type = thrift_field(b, &id)) > 0) {
		if (id == 1 && b->rc == 0) {
			b->rc = err_set(b->err, -EBADMSG, "its columns are in other files");
			return;
		}
		if (id == 3 && type == THRIFT_STRUCT) {
			parquet_column(p, g);
			found = true;
		} else if (id == 8) {
			refuse_encrypted(b);
			return;
		} else {
			thrift_skip(b, type, 3);
		}
	}
	if (!found)
		thrift_bad(b, "a column without metadata");
}

/* RowGroup: 1 columns, 3 num_rows. */
static int parquet_take_group(struct parquet *p)
{
	struct format_bytes *b = p->bytes;
	struct parquet_group g = { .start = UINT64_MAX };
	int64_t id = 0, rows = -1;
	uint64_t nr;
	unsigned type;

	while ((type = thrift_field(b, &id)) > 0)
		if (id == 1 && type == THRIFT_LIST) {
			nr = thrift_list(b, &type);
			if (type != THRIFT_STRUCT && nr > 0)
				thrift_bad(b, "a list of columns of another type");
			for (uint64_t i = 0; i < nr && b->rc == 0; i++)
				parquet_chunk(p, &g);
		} else if (id == 3) {
			rows = take_i64(b, type);
		} else {
			thrift_skip(b, type, 2);
		}
	if (b->rc == 0 && (rows < 0 || __builtin_add_overflow(p->rows, (uint64_t)rows, &p->rows)))
		thrift_bad(b, "a row group without a number of rows");
	if (b->rc < 0)
		return b->rc;
	if (g.end == 0) /* it has no columns */
		g.start = g.end = u64_max(p->search->end, 4);
	return samples_report(p->search, g.start, g.end - g.start, (uint64_t)rows);
}

/* FileMetaData: 3 num_rows, 4 row_groups, 8 encryption_algorithm. */
static int parquet_footer(struct parquet *p)
{
	struct format_bytes *b = p->bytes;
	bool found = false;
	int64_t id = 0;
	unsigned type;
	uint64_t nr;
	int rc = 0;

	while (rc == 0 && (type = thrift_field(b, &id)) > 0)
		if (id == 3) {
			p->rows_said = take_i64(b, type);
		} else if (id == 4 && type == THRIFT_LIST && !found) {
			found = true;
			nr = thrift_list(b, &type);
			if (type != THRIFT_STRUCT && nr > 0)
				thrift_bad(b, "a list of row groups of another type");
			for (uint64_t i = 0; i < nr && rc == 0; i++)
				rc = b->rc < 0 ? b->rc : parquet_take_group(p);
		} else if (id == 8) {
			refuse_encrypted(b);
		} else {
			thrift_skip(b, type, 1);
		}
	if (rc != 0 || b->rc < 0)
		return rc != 0 ? rc : b->rc;
	if (!found || p->rows_said < 0 || (uint64_t)p->rows_said != p->rows)
		return err_set(b->err, -EBADMSG,
			       "damaged footer: its row groups have %" PRIu64
			       " rows, but it says %" PRId64,
			       p->rows, p->rows_said);
	return 0;
}

int samples_find_parquet(struct samples_search *s)
{
	uint64_t size = s->file->size, len;
	struct parquet p = { .search = s, .rows_said = -1 };
	struct format_bytes bytes;
	uint8_t tail[TAIL], head[4];
	int rc;

	if (size < 4 + TAIL)
		return err_set(s->err, -EBADMSG, "%" PRIu64 " bytes are too few for a Parquet file",
			       size);
	rc = format_read(s->file, size - TAIL, tail, TAIL, s->err);
	if (rc < 0)
		return rc;
	if (memcmp(tail + 4, "PARE", 4) == 0)
		return err_set(s->err, -EBADMSG, "its footer is encrypted");
	if (memcmp(tail + 4, "PAR1", 4) != 0)
		return err_set(s->err, -EBADMSG,
			       "not a Parquet file, or truncated: it does not end in PAR1");
	len = le32_load(tail);
	if (len > size - 4 - TAIL)
		return err_set(s->err, -EBADMSG,
			       "damaged footer: its length of %" PRIu64
			       " bytes does not fit the file of %" PRIu64,
			       len, size);
	p.data_end = size - TAIL - len;
	p.bytes = &bytes;
	format_bytes_init(&bytes, s->file, p.data_end, size - TAIL, s->err);
	rc = parquet_footer(&p);
	if (rc != 0)
		return rc;
	rc = format_read(s->file, 0, head, sizeof(head), s->err);
	if (rc == 0 && memcmp(head, "PAR1", 4) != 0)
		rc = err_set(s->err, -EBADMSG, "it does not begin with PAR1");
	return rc;
}
