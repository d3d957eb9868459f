/*
 * Arrow IPC files: the record batches, from the footer. The footer is a FlatBuffer: a table of
 * fields at offsets, of which only those of the record batches are followed. Names in comments are
 * those of Arrow's File.fbs and Message.fbs.
 */
#include <inttypes.h>

#include "format/samples_private.h"

#define TAIL  10u /* length of the footer, magic */
#define BLOCK 24u /* offset, length of the metadata, 4 unused bytes, length of the body */

/* A FlatBuffer: a range of the file. */
struct flat {
	const struct format_source *file;
	struct shoal_err *err;
	uint64_t start, end;
};

static int flat_bad(const struct flat *f)
{
	return err_set(f->err, -EBADMSG, "damaged metadata at %" PRIu64, f->start);
}

static int flat_read(const struct flat *f, uint64_t at, void *buf, size_t len)
{
	if (at < f->start || at > f->end || len > f->end - at)
		return flat_bad(f);
	return format_read(f->file, at, buf, len, f->err);
}

static int flat_u32(const struct flat *f, uint64_t at, uint32_t *ret)
{
	uint8_t buf[4] = { 0 };
	int rc = flat_read(f, at, buf, sizeof(buf));

	*ret = le32_load(buf);
	return rc;
}

/* The place of field @nr of the table at @table. 0: the field is missing. */
static int flat_field(const struct flat *f, uint64_t table, unsigned nr, uint64_t *ret_at)
{
	uint8_t buf[2] = { 0 };
	uint32_t back = 0;
	uint64_t fields;
	unsigned at;
	int rc = flat_u32(f, table, &back);

	if (rc < 0)
		return rc;
	fields = table - (uint64_t)(int64_t)(int32_t)back; /* its vtable, before or after it */
	rc = flat_read(f, fields, buf, sizeof(buf));
	if (rc < 0)
		return rc;
	*ret_at = 0;
	if ((buf[0] | (unsigned)buf[1] << 8) < 4 + 2 * nr + 2)
		return 0;
	rc = flat_read(f, fields + 4 + 2 * nr, buf, sizeof(buf));
	at = buf[0] | (unsigned)buf[1] << 8;
	if (rc == 0 && at)
		*ret_at = table + at;
	return rc;
}

/* The table or vector that the field at @at points to. */
static int flat_follow(const struct flat *f, uint64_t at, uint64_t *ret_at)
{
	uint32_t by = 0;
	int rc = flat_u32(f, at, &by);

	*ret_at = at + by;
	return rc;
}

static int flat_root(const struct flat *f, uint64_t *ret_table)
{
	return flat_follow(f, f->start, ret_table);
}

/* The number of rows of the record batch whose metadata is at [off, off + len): Message.header is a
 * RecordBatch (type 3), and RecordBatch.length its rows. */
static int batch_rows(const struct samples_search *s, uint64_t off, uint64_t len, uint64_t *ret)
{
	struct flat f = { s->file, s->err, off + 8, off + len };
	uint64_t table = 0, at = 0, rows;
	uint8_t buf[8] = { 0 }, type = 0;
	int rc = flat_read(&(struct flat){ s->file, s->err, off, off + len }, off, buf, 8);

	if (rc < 0)
		return rc;
	if (le32_load(buf) != UINT32_MAX)
		f.start = off + 4; /* before version 0.15 no continuation marker came first */
	rc = flat_root(&f, &table);
	if (rc == 0)
		rc = flat_field(&f, table, 1, &at);
	if (rc == 0 && at)
		rc = flat_read(&f, at, &type, 1);
	if (rc == 0 && type != 3)
		return flat_bad(&f);
	if (rc == 0)
		rc = flat_field(&f, table, 2, &at);
	if (rc == 0)
		rc = at ? flat_follow(&f, at, &table) : flat_bad(&f);
	if (rc == 0)
		rc = flat_field(&f, table, 0, &at);
	memset(buf, 0, sizeof(buf));
	if (rc == 0 && at)
		rc = flat_read(&f, at, buf, 8);
	rows = le64_load(buf);
	if (rc == 0 && rows > INT64_MAX)
		return flat_bad(&f);
	*ret = rows;
	return rc;
}

static int arrow_block(struct samples_search *s, const uint8_t block[BLOCK], uint64_t data_end)
{
	uint64_t off = le64_load(block), meta = le32_load(block + 8), body = le64_load(block + 16);
	uint64_t rows = 0;
	int rc;

	if (meta < 8 || meta > INT32_MAX || !format_inside(off, meta, data_end) ||
	    body > data_end - off - meta)
		return err_set(s->err, -EBADMSG,
			       "record batch %" PRIu64 " at %" PRIu64 " lies outside the data",
			       s->nr, off);
	rc = batch_rows(s, off, meta, &rows);
	return rc < 0 ? rc : samples_report(s, off, meta + body, rows);
}

/* Footer: field 3 is recordBatches, a vector of Block. */
static int arrow_footer(struct samples_search *s, const struct flat *f)
{
	uint64_t table = 0, at = 0;
	uint8_t block[BLOCK] = { 0 };
	uint32_t nr = 0;
	int rc = flat_root(f, &table);

	if (rc == 0)
		rc = flat_field(f, table, 3, &at);
	if (rc < 0 || at == 0)
		return rc;
	rc = flat_follow(f, at, &at);
	if (rc == 0)
		rc = flat_u32(f, at, &nr);
	for (uint32_t i = 0; i < nr && rc == 0; i++) {
		rc = flat_read(f, at + 4 + BLOCK * (uint64_t)i, block, BLOCK);
		if (rc == 0)
			rc = arrow_block(s, block, f->start);
	}
	return rc;
}

int samples_find_arrow(struct samples_search *s)
{
	struct flat f = { .file = s->file, .err = s->err };
	uint64_t size = s->file->size, len;
	uint8_t tail[TAIL] = { 0 }, head[8] = { 0 };
	int rc;

	if (size < sizeof(head) + TAIL)
		return err_set(s->err, -EBADMSG, "%" PRIu64 " bytes are too few for an Arrow file",
			       size);
	rc = format_read(s->file, size - TAIL, tail, TAIL, s->err);
	if (rc == 0)
		rc = format_read(s->file, 0, head, sizeof(head), s->err);
	if (rc < 0)
		return rc;
	if (le32_load(head) == UINT32_MAX)
		return err_set(s->err, -EBADMSG,
			       "an Arrow IPC stream, which has no index: convert it to a file");
	if (memcmp(head, "FEA1", 4) == 0)
		return err_set(s->err, -EBADMSG,
			       "a Feather file of version 1: convert it to Arrow IPC");
	if (memcmp(head, "ARROW1", 6) != 0 || memcmp(tail + 4, "ARROW1", 6) != 0)
		return err_set(s->err, -EBADMSG,
			       "not an Arrow IPC file, or truncated: it does not begin and end "
			       "with ARROW1");
	len = le32_load(tail);
	if (len > size - sizeof(head) - TAIL)
		return err_set(s->err, -EBADMSG,
			       "damaged footer: its length of %" PRIu64
			       " bytes does not fit the file of %" PRIu64,
			       len, size);
	f.start = size - TAIL - len;
	f.end = size - TAIL;
	return arrow_footer(s, &f);
}
