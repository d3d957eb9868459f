/*
 * CSV: a line of column names, then a line per sample. Fields are random characters from '-' to
 * '~', a range without comma, quote or hash: for text, this compresses least.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "format/format_private.h"

#define FIELD       64 /* minimum bytes per field if there are several */
#define COLUMNS_MAX 100
#define FIRST_CHAR  '-'
#define NR_CHARS    ('~' - '-' + 1)

/* "0,1,2...\n" */
static uint64_t head_len(uint64_t columns)
{
	return columns <= 10 ? 2 * columns : 20 + 3 * (columns - 10);
}

static uint64_t csv_least(uint64_t nr_samples)
{
	return head_len(1) + 2 * nr_samples;
}

static void csv_plan(struct format_maker *m)
{
	uint64_t columns = m->spec.size / m->spec.nr_samples / (FIELD + 4);

	columns = u64_min(u64_max(columns, 1), COLUMNS_MAX);
	m->plan.text.columns = columns;
	m->plan.text.head = head_len(columns);
}

static uint64_t row_at(const struct format_maker *m, uint64_t i)
{
	return u64_scale(m->spec.size - m->plan.text.head, i, m->spec.nr_samples);
}

static void csv_fill(const struct format_maker *m, uint64_t cell, uint8_t *out, size_t len)
{
	uint64_t columns = m->plan.text.columns, field = m->piece.len / columns;
	uint64_t at = cell * FORMAT_CELL;

	format_fill_random(m, cell, out, len);
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(FIRST_CHAR + (out[i] * NR_CHARS >> 8));
	/* A comma ends each field but the last, which gets the rest. */
	for (uint64_t f = at / field; f < columns - 1 && (f + 1) * field - 1 < at + len; f++)
		out[(f + 1) * field - 1 - at] = ',';
	if (at + len == m->piece.len)
		out[len - 1] = '\n';
}

static void put_names(struct format_maker *m)
{
	char *p = (char *)format_put(m, (size_t)m->plan.text.head, 0);

	for (unsigned i = 0; i < m->plan.text.columns; i++)
		p += sprintf(p, "%u%c", i, i + 1 < m->plan.text.columns ? ',' : '\n');
}

static void csv_next(struct format_maker *m)
{
	if (m->step == 0) {
		m->step = 1;
		put_names(m);
	} else if (m->index < m->spec.nr_samples) {
		format_put_content(m, row_at(m, m->index + 1) - row_at(m, m->index), csv_fill,
				   FORMAT_CELL, 0);
		m->index++;
	}
}

static int csv_extents(const struct format_spec *spec, format_extent_fn *found, void *self)
{
	struct format_maker m;
	int rc = 0;

	format_begin(&m, &format_csv, 0, spec);
	for (uint64_t i = 0; i < spec->nr_samples && rc == 0; i++) {
		uint64_t off = row_at(&m, i);

		rc = found(self, i, m.plan.text.head + off, row_at(&m, i + 1) - off, 1);
	}
	return rc;
}

const struct format format_csv = {
	.name = "csv",
	.least = csv_least,
	.plan = csv_plan,
	.next = csv_next,
	.extents = csv_extents,
};
