/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TABLE_H
#define GPUSHARE_TOOLS_TABLE_H
/* Lines of cells, in columns as wide as they need to be. */
#include <stdbool.h>
#include <stddef.h>

#include "gpushare.h"

#define TABLE_COLUMNS_MAX 12
#define TABLE_CELL_MAX (GPUSHARE_NAME_MAX + 1)
#define TABLE_LINE_MAX (TABLE_COLUMNS_MAX * (TABLE_CELL_MAX + 2))

struct table_column {
	const char *title;
	bool right;    /* numbers */
	bool optional; /* no column where no line has anything to say in it */
};

typedef char table_cells[TABLE_COLUMNS_MAX][TABLE_CELL_MAX];

struct table {
	const struct table_column *columns;
	int count;
	table_cells *rows;
	size_t used, room;
};

/* The cells of a new line, all empty; NULL: out of memory. */
char (*table_add(struct table *table))[TABLE_CELL_MAX];
/* Without a newline; `row` of those added, or -1 for the titles. All lines are of one call's widths. */
void table_widths(const struct table *table, size_t out_widths[TABLE_COLUMNS_MAX]);
void table_line(const struct table *table, const size_t widths[TABLE_COLUMNS_MAX], long row,
		char out[TABLE_LINE_MAX]);
/* All of it on standard output. */
void table_print(const struct table *table);
void table_finish(struct table *table);

#endif
