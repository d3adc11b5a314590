/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COLUMNS_H
#define GPUSHARE_TOOLS_COLUMNS_H
/* Tables, drawn by libsmartcols. */
#include <libsmartcols/libsmartcols.h>

struct libscols_table *columns_new(void); /* NULL: out of memory */
/* Set a cell. Text makes a column visible that was created hidden (SCOLS_FL_HIDDEN). Returns 0, or
 * a negative errno. */
int columns_set(struct libscols_table *table, struct libscols_line *line, size_t column,
		const char *text);
/* The table as text, without blanks at the ends of lines, and no newline at its end. Releases the
 * table. The caller frees the text. NULL: out of memory. An empty table has its titles. */
char *columns_text(struct libscols_table *table);
/* Print the table, and release it. If `table` is NULL, report out of memory. Returns a
 * tool_exit. */
int columns_print(struct libscols_table *table);

#endif
