/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_COLUMNS_H
#define GPUSHARE_TOOLS_COLUMNS_H
/* Tables on standard output, drawn by libsmartcols. */
#include <libsmartcols/libsmartcols.h>
#include <stdbool.h>

/* A table whose columns are `separator` apart. NULL: out of memory. */
struct libscols_table *columns_new(const char *separator);
/* Append "label:" and a text to a table that columns_fields() has made. Running out of memory is
 * reported by columns_print(). */
struct columns_fields {
	struct libscols_table *table;
	bool failed;
};
struct columns_fields columns_fields(void);
void columns_field(struct columns_fields *fields, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int columns_fields_print(struct columns_fields *fields); /* as columns_print() */
/* Print the table and release it; titles are printed of an empty one, too. NULL: it reports that
 * memory ran out. Returns a tool_exit. */
int columns_print(struct libscols_table *table);

#endif
