/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COLUMNS_H
#define GPUSHARE_TOOLS_COLUMNS_H
/* Tables on standard output, drawn by libsmartcols. */
#include <libsmartcols/libsmartcols.h>

/* A new table. It prints `separator` between columns. NULL: out of memory. */
struct libscols_table *columns_new(const char *separator);
/* Print the table, and release it. An empty table prints its titles. If `table` is NULL, report out
 * of memory. Returns a tool_exit. */
int columns_print(struct libscols_table *table);

#endif
