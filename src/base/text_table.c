#include "base/text_table.h"

#include <stdio.h>
#include <stdlib.h>

#define WIDE_GAP  1 /* between columns of the width that they were given */
#define CLOSE_GAP 2 /* between columns of the width of their contents */
#define LAST_GAP  2 /* before the last column */

struct table_layout {
	int width[TEXT_TABLE_COLUMNS]; /* 0: left out */
	int gap;
};

static void text_table_fill_head(const struct text_table *t, char (*cell)[TEXT_TABLE_CELL])
{
	for (size_t i = 0; i < t->nr_columns; i++)
		snprintf(cell[i], TEXT_TABLE_CELL, "%s", t->columns[i].head);
}

static int gap_before(const struct text_table *t, const struct table_layout *l, size_t column)
{
	return column + 1 == t->nr_columns ? LAST_GAP : l->gap;
}

static size_t line_width(const struct text_table *t, const struct table_layout *l)
{
	size_t sum = 0;

	for (size_t i = 0; i < t->nr_columns; i++)
		if (l->width[i])
			sum += (size_t)(l->width[i] + (sum ? gap_before(t, l, i) : 0));
	return sum;
}

/* What the contents need. */
static void fit_contents(const struct text_table *t, struct table_layout *l)
{
	char cell[TEXT_TABLE_COLUMNS][TEXT_TABLE_CELL];

	text_table_fill_head(t, cell);
	for (size_t row = 0;; row++) {
		for (size_t i = 0; i < t->nr_columns; i++) {
			int len = (int)strlen(cell[i]);

			l->width[i] = row == 0 || len > l->width[i] ? len : l->width[i];
		}
		if (row == t->nr_rows)
			return;
		t->fill(t->self, row, cell);
	}
}

static struct table_layout choose_layout(const struct text_table *t, size_t window)
{
	struct table_layout close = { .gap = CLOSE_GAP }, wide = { .gap = WIDE_GAP };
	int drop = 0;

	fit_contents(t, &close);
	for (size_t i = 0; i < t->nr_columns; i++) {
		int least = abs(t->columns[i].width);

		wide.width[i] = close.width[i] > least ? close.width[i] : least;
		drop = t->columns[i].drop > drop ? t->columns[i].drop : drop;
	}
	if (window == 0 || line_width(t, &wide) < window)
		return wide;
	for (; drop > 0 && line_width(t, &close) >= window; drop--)
		for (size_t i = 0; i < t->nr_columns; i++)
			close.width[i] = t->columns[i].drop < drop ? close.width[i] : 0;
	return close;
}

static void text_table_put_row(const struct text_table *t, const struct table_layout *l,
			       char (*cell)[TEXT_TABLE_CELL], struct buf *buf)
{
	char text[TEXT_TABLE_CELL + 64];
	size_t at = buf->len;
	bool first = true;

	for (size_t i = 0; i < t->nr_columns; i++) {
		bool last = i + 1 == t->nr_columns;

		if (l->width[i] == 0)
			continue;
		snprintf(text, sizeof(text), "%*s%*s", first ? 0 : gap_before(t, l, i), "",
			 last                      ? 0
			 : t->columns[i].width < 0 ? -l->width[i]
						   : l->width[i],
			 cell[i]);
		buf_text(buf, text);
		first = false;
	}
	while (buf->len > at && buf->data[buf->len - 1] == ' ')
		buf->len--;
	buf_u8(buf, '\n');
}

void text_table_put(const struct text_table *t, size_t window, struct buf *buf)
{
	struct table_layout l = choose_layout(t, window);
	char cell[TEXT_TABLE_COLUMNS][TEXT_TABLE_CELL];

	text_table_fill_head(t, cell);
	text_table_put_row(t, &l, cell, buf);
	for (size_t row = 0; row < t->nr_rows; row++) {
		t->fill(t->self, row, cell);
		text_table_put_row(t, &l, cell, buf);
	}
}
