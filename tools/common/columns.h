/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COLUMNS_H
#define GPUSHARE_TOOLS_COLUMNS_H
/* Tables on standard output, drawn by libsmartcols. */
#include <libsmartcols/libsmartcols.h>
#include <stdbool.h>

/* A new table. It prints `separator` between columns. NULL: out of memory. */
struct libscols_table *columns_new(const char *separator);
/* A table of labels and texts. If memory runs out, columns_fields_print() reports it. */
struct columns_fields {
	struct libscols_table *table;
	bool failed;
};
struct columns_fields columns_fields(void);
/* Append the line "label: text". */
void columns_field(struct columns_fields *fields, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int columns_fields_print(struct columns_fields *fields); /* columns_print() of the table */
/* Print the table, and release it. An empty table prints its titles. If `table` is NULL, report out
 * of memory. Returns a tool_exit. */
int columns_print(struct libscols_table *table);

#endif
