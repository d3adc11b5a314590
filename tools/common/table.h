/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TABLE_H
#define GPUSHARE_TOOLS_TABLE_H
/* A text table whose columns are as wide as their longest cell. */
#include <stdbool.h>
#include <stddef.h>

#include "gpushare.h"

#define TABLE_COLUMNS_MAX 12
#define TABLE_CELL_MAX (GPUSHARE_NAME_MAX + 1)
#define TABLE_LINE_MAX (TABLE_COLUMNS_MAX * (TABLE_CELL_MAX + 2))

struct table_column {
	const char *title;
	bool right;    /* align right, for numbers */
	bool optional; /* omit the column if all its cells are empty */
};

typedef char table_cells[TABLE_COLUMNS_MAX][TABLE_CELL_MAX];

struct table {
	const struct table_column *columns;
	int count;
	table_cells *rows;
	size_t used, room;
};

/* Add a row of empty cells and return it. NULL: out of memory. The next table_add() may move the
 * rows. */
char (*table_add(struct table *table))[TABLE_CELL_MAX];
/* Format a row without a newline; row -1: the titles. Take the widths for all rows from one call
 * of table_widths(). */
void table_widths(const struct table *table, size_t out_widths[TABLE_COLUMNS_MAX]);
void table_line(const struct table *table, const size_t widths[TABLE_COLUMNS_MAX], long row,
		char out[TABLE_LINE_MAX]);
/* Print titles and rows on standard output. */
void table_print(const struct table *table);
void table_finish(struct table *table);

#endif
