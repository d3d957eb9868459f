/*
 * text_table.h - tables for people, as wide as their window allows.
 *
 * Where there is room for all columns, each has the width that its owner gives it. In a narrower
 * window they take only the room that their contents need, and some are left out.
 */
#ifndef SHOAL_BASE_TEXT_TABLE_H
#define SHOAL_BASE_TEXT_TABLE_H

#include "base/buf.h"

#define TEXT_TABLE_COLUMNS 16
#define TEXT_TABLE_CELL    128

struct text_column {
	const char *head;
	int width; /* negative: text begins at the left */
	int drop;  /* those with the highest number are left out first; 0: never */
};

struct text_table {
	const struct text_column *columns;
	size_t nr_columns, nr_rows;
	/* Print the cells of a row. It may be called twice for each. */
	void (*fill)(const void *self, size_t row, char (*cell)[TEXT_TABLE_CELL]);
	const void *self;
};

/* Append the table, its head first, to @buf, in lines of less than @window columns; 0: any. */
void text_table_put(const struct text_table *t, size_t window, struct buf *buf);

#endif
