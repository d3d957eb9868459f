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

/* Lines; the last may lack its line feed. Quoted fields with line breaks are not supported. */
static int csv_find(const struct format_source *file, uint64_t nr_samples, format_found_fn *found,
		    void *self, struct shoal_err *err)
{
	uint64_t start = 0, nr_lines = 0;
	uint8_t buf[4096];
	int rc = 0;

	for (uint64_t pos = 0; pos < file->size && rc == 0; pos += sizeof(buf)) {
		size_t len = (size_t)u64_min(sizeof(buf), file->size - pos);

		rc = format_read(file, pos, buf, len, err);
		for (size_t i = 0; i < len && rc == 0; i++) {
			uint64_t end = pos + i + 1;

			if (buf[i] != '\n' && end < file->size)
				continue;
			if (nr_lines > nr_samples)
				return err_set(err, -ERANGE,
					       "it has more than %" PRIu64 " line%s after the "
					       "first",
					       nr_samples, plural(nr_samples));
			if (nr_lines > 0)
				rc = found(self, nr_lines - 1, start, end - start);
			nr_lines++;
			start = end;
		}
	}
	if (rc == 0 && nr_lines != nr_samples + 1)
		return err_set(err, -ERANGE, "it has %" PRIu64 " line%s, not a header and %" PRIu64,
			       nr_lines, plural(nr_lines), nr_samples);
	return rc;
}

const struct format format_csv = {
	.name = "csv",
	.least = csv_least,
	.plan = csv_plan,
	.next = csv_next,
	.find = csv_find,
};
