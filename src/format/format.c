#include "format/format.h"

#include <inttypes.h>

#include "base/text.h"
#include "format/format_private.h"
#include "format/table.h"

const struct format *const format_sized[FORMAT_SIZED] = {
	&format_csv, &format_hdf5, &format_indexed_binary, &format_jpeg, &format_npy, &format_npz,
	&format_png, &format_tar,  &format_tfrecord,
};
static const struct format *const table_formats[] = { &format_parquet, &format_arrow };

const struct format *format_by_name(const char *name)
{
	for (size_t i = 0; i < FORMAT_SIZED; i++)
		if (strcmp(format_sized[i]->name, name) == 0)
			return format_sized[i];
	for (size_t i = 0; i < ARRAY_LEN(table_formats); i++)
		if (strcmp(table_formats[i]->name, name) == 0)
			return table_formats[i];
	return NULL;
}

bool format_has_table(const struct format *f)
{
	return f->has_table;
}

bool format_has_extents(const struct format *f)
{
	return f->has_table || f->extents;
}

int format_extents(const struct format *f, const struct format_spec *spec, format_extent_fn *found,
		   void *self)
{
	if (f->has_table)
		return format_table_walk(f, spec->table, found, self, NULL);
	return f->extents ? f->extents(spec, found, self) : -ENOTSUP;
}

const char *format_name(const struct format *f)
{
	return f->name;
}

const struct format_side *format_side(const struct format *f, size_t side)
{
	return side < FORMAT_SIDES_MAX && f->side[side].suffix ? &f->side[side] : NULL;
}

/* ---- Arithmetic ---- */

uint64_t format_isqrt(uint64_t v)
{
	uint64_t root = 0;

	for (uint64_t bit = UINT64_C(1) << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= v)
			root += bit;
	return root;
}

#define RECTANGLE_TRIES 32

void format_rectangle(uint64_t area, uint64_t *ret_width, uint64_t *ret_height)
{
	uint64_t from = u64_max(format_isqrt(area), 1), least = UINT64_MAX;

	for (uint64_t w = from; 2 * w > from && w + RECTANGLE_TRIES > from && least > 0; w--) {
		uint64_t left = area % w;

		if (left < least) {
			least = left;
			*ret_width = w;
			*ret_height = area / w;
		}
	}
}

/* ---- Making ---- */

/* 16 TiB: the limit of common file systems. */
#define FILE_MAX (UINT64_C(1) << 44)

/* With several samples per file, none may exceed the largest record of the format. */
static uint64_t most_bytes(const struct format *f, uint64_t nr_samples)
{
	if (f->record_max == 0 || f->record_max >= FILE_MAX / nr_samples)
		return FILE_MAX;
	return (f->record_max + 1) * nr_samples - 1;
}

int format_check(const struct format *f, uint64_t size, uint64_t nr_samples, struct shoal_err *err)
{
	uint64_t least, most = f->samples_max ? f->samples_max : UINT64_C(1) << 40;

	if (nr_samples < 1 || nr_samples > most)
		return err_set(err, -EINVAL,
			       "a %s file holds 1 to %" PRIu64 " samples, not %" PRIu64, f->name,
			       most, nr_samples);
	least = f->least(nr_samples);
	if (size < least)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " bytes are too few for a %s file with %" PRIu64
			       " sample%s: the least is %" PRIu64,
			       size, f->name, nr_samples, plural(nr_samples), least);
	most = most_bytes(f, nr_samples);
	if (size > most)
		return err_set(err, -EINVAL,
			       "%" PRIu64 " bytes are too many for a %s file with %" PRIu64
			       " sample%s: the most is %" PRIu64,
			       size, f->name, nr_samples, plural(nr_samples), most);
	return 0;
}

void format_begin(struct format_maker *m, const struct format *f, unsigned part,
		  const struct format_spec *spec)
{
	m->format = f;
	m->spec = *spec;
	m->part = part;
	m->step = 0;
	m->index = 0;
	m->piece = (struct format_piece){ 0 };
	m->piece_pos = m->nr_pieces = 0;
	m->cached = UINT64_MAX;
	if (f->plan)
		f->plan(m);
}

int format_make(struct format_maker *m, const struct format *f, unsigned part,
		const struct format_spec *spec, struct shoal_err *err)
{
	int rc = f->has_table ? format_table_check(f, spec->table, err)
			      : format_check(f, spec->size, spec->nr_samples, err);

	if (rc == 0)
		format_begin(m, f, part, spec);
	return rc;
}

static void maker_put_piece(struct format_maker *m, const struct format_piece *piece)
{
	m->piece = *piece;
	m->piece_pos = 0;
	m->cached = UINT64_MAX;
	m->nr_pieces++;
}

uint8_t *format_put(struct format_maker *m, size_t len, unsigned sums)
{
	maker_put_piece(m, &(struct format_piece){ .len = len, .sums = sums });
	return m->literal;
}

void format_put_content(struct format_maker *m, uint64_t len, format_fill_fn *fill, size_t cell_len,
			unsigned sums)
{
	maker_put_piece(m, &(struct format_piece){
				   .len = len,
				   .fill = fill,
				   .cell_len = cell_len,
				   .key = format_mix(m->spec.key, m->nr_pieces),
				   .sums = sums,
			   });
}

void format_fill_random(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	format_random(format_mix(m->piece.key, cell), out, len);
}

void format_put_random(struct format_maker *m, uint64_t len, unsigned sums)
{
	format_put_content(m, len, format_fill_random, FORMAT_CELL, sums);
}

/* Copy up to the end of a cell. A cell that is wanted completely is generated in place. */
static size_t take_cell(struct format_maker *m, uint8_t *buf, size_t len)
{
	const struct format_piece *p = &m->piece;
	uint64_t cell = m->piece_pos / p->cell_len;
	size_t from = (size_t)(m->piece_pos % p->cell_len);
	size_t have = (size_t)u64_min(p->cell_len, p->len - cell * p->cell_len);

	if (from == 0 && len >= have) {
		p->fill(m, cell, buf, have);
		return have;
	}
	if (m->cached != cell) {
		p->fill(m, cell, m->cell, have);
		m->cached = cell;
	}
	len = (size_t)u64_min(len, have - from);
	memcpy(buf, m->cell + from, len);
	return len;
}

static size_t take_literal(struct format_maker *m, uint8_t *buf, size_t len)
{
	len = (size_t)u64_min(len, m->piece.len - m->piece_pos);
	memcpy(buf, m->literal + m->piece_pos, len);
	return len;
}

/* Advance to the next piece that is not empty. False at the end of the file. */
static bool next_piece(struct format_maker *m)
{
	do {
		uint64_t before = m->nr_pieces;

		if (m->part)
			m->format->side_next[m->part - 1](m);
		else
			m->format->next(m);
		if (m->nr_pieces == before)
			return false;
	} while (m->piece.len == 0);
	return true;
}

size_t format_next(struct format_maker *m, void *buf, size_t len)
{
	uint8_t *out = buf;
	size_t done = 0;

	while (done < len && (m->piece_pos < m->piece.len || next_piece(m))) {
		size_t n;

		if (m->piece.fill)
			n = take_cell(m, out + done, len - done);
		else
			n = take_literal(m, out + done, len - done);
		if (m->piece.sums)
			m->format->sum(m, out + done, n);
		m->piece_pos += n;
		done += n;
	}
	return done;
}

/* ---- Finding ---- */

int format_read(const struct format_source *s, uint64_t off, void *buf, size_t len,
		struct shoal_err *err)
{
	if (!format_inside(off, len, s->size))
		return err_set(err, -EBADMSG,
			       "the file ends after %" PRIu64
			       " bytes, but there should be data at %" PRIu64,
			       s->size, off);
	return s->read(s->self, off, buf, len, err);
}
