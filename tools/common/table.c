/* SPDX-License-Identifier: MIT */
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "terminal.h"

char (*table_add(struct table *table))[TABLE_CELL_MAX]
{
	if (table->used == table->room) {
		size_t room = table->room ? 2 * table->room : 64;
		table_cells *more = realloc(table->rows, room * sizeof(*more));

		if (!more)
			return NULL;
		table->rows = more;
		table->room = room;
	}
	memset(table->rows[table->used], 0, sizeof(*table->rows));
	return table->rows[table->used++];
}

/* Returns 0 if the column is optional and empty, so that it isn't printed. */
static size_t column_width(const struct table *table, int column)
{
	size_t width = strlen(table->columns[column].title), longest = 0;

	for (size_t at = 0; at < table->used; at++) {
		size_t length = strlen(table->rows[at][column]);

		longest = length > longest ? length : longest;
	}
	if (!longest && table->columns[column].optional)
		return 0;
	return longest > width ? longest : width;
}

void table_widths(const struct table *table, size_t out_widths[TABLE_COLUMNS_MAX])
{
	for (int i = 0; i < table->count; i++)
		out_widths[i] = column_width(table, i);
}

void table_line(const struct table *table, const size_t widths[TABLE_COLUMNS_MAX], long row,
		char out[TABLE_LINE_MAX])
{
	char *to = out;

	*to = '\0';
	for (int i = 0; i < table->count; i++) {
		const char *cell = row < 0 ? table->columns[i].title : table->rows[row][i];
		int width = (int)widths[i];

		if (!width)
			continue;
		to += sprintf(to, "%s%*s", to == out ? "" : "  ",
			      table->columns[i].right ? width : -width, cell);
	}
	while (to > out && to[-1] == ' ')
		*--to = '\0';
}

void table_print(const struct table *table)
{
	size_t widths[TABLE_COLUMNS_MAX];
	char line[TABLE_LINE_MAX];

	table_widths(table, widths);
	table_line(table, widths, -1, line);
	printf("%s%s%s\n", terminal_style(STYLE_BOLD), line, terminal_style(STYLE_PLAIN));
	for (size_t at = 0; at < table->used; at++) {
		table_line(table, widths, (long)at, line);
		puts(line);
	}
}

void table_finish(struct table *table)
{
	free(table->rows);
	table->rows = NULL;
	table->used = table->room = 0;
}
