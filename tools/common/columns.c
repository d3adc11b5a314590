/* SPDX-License-Identifier: MIT */
#include "columns.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "terminal.h"
#include "tool.h"

struct libscols_table *columns_new(const char *separator)
{
	struct libscols_table *table = scols_new_table();

	if (!table || !scols_table_set_column_separator(table, separator))
		return table;
	scols_unref_table(table);
	return NULL;
}

/* Omit the trailing blanks with which libsmartcols fills the last cells of a line. */
static void print_lines(char *text, bool titles, bool empty)
{
	for (char *line; (line = strsep(&text, "\n")) && *line; titles = false) {
		size_t length = strlen(line);

		while (length && line[length - 1] == ' ')
			length--;
		printf("%s%.*s%s\n", titles ? terminal_style(STYLE_BOLD) : "", (int)length, line,
		       titles ? terminal_style(STYLE_PLAIN) : "");
		if (empty)
			return;
	}
}

int columns_print(struct libscols_table *table)
{
	bool titles = table && !scols_table_is_noheadings(table);
	bool empty = table && scols_table_is_empty(table);
	_cleanup_free_ char *text = NULL;
	int status = table ? 0 : -1;

	if (empty && titles) /* libsmartcols prints the titles only if there is a line */
		status = scols_table_new_line(table, NULL) ? 0 : -1;
	if (!status)
		status = scols_print_table_to_string(table, &text);
	scols_unref_table(table);
	if (status) {
		tool_error("no memory for the table");
		return TOOL_FAILED;
	}
	print_lines(text, titles, empty);
	return tool_flush(TOOL_DONE);
}
