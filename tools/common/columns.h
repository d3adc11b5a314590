/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COLUMNS_H
#define GPUSHARE_TOOLS_COLUMNS_H
/* Tables, drawn by libsmartcols. */
#include <libsmartcols/libsmartcols.h>

struct libscols_table *columns_new(void); /* NULL: out of memory */
/* Set a cell. If `text` isn't empty, a hidden column (SCOLS_FL_HIDDEN) becomes visible. Returns 0,
 * or a negative errno. */
int columns_set(struct libscols_table *table, struct libscols_line *line, size_t column,
		const char *text);
/* Return the table as text, without trailing blanks and without a final newline, and release the
 * table. A table without lines still has its titles. The caller frees the text. NULL: out of
 * memory. */
char *columns_text(struct libscols_table *table);
/* Print the table, and release it. If `table` is NULL, report out of memory. Returns a
 * tool_exit. */
int columns_print(struct libscols_table *table);

#endif
