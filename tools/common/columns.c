/* SPDX-License-Identifier: MIT */
#include "columns.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "terminal.h"
#include "tool.h"

struct libscols_table *columns_new(void)
{
	struct libscols_table *table = scols_new_table();

	if (!table || !scols_table_set_column_separator(table, "  "))
		return table;
	scols_unref_table(table);
	return NULL;
}

int columns_set(struct libscols_table *table, struct libscols_line *line, size_t column,
		const char *text)
{
	struct libscols_column *head = scols_table_get_column(table, column);

	if (*text)
		scols_column_set_flags(head, scols_column_get_flags(head) & ~SCOLS_FL_HIDDEN);
	return scols_line_set_data(line, column, text);
}

char *columns_text(struct libscols_table *table)
{
	char *text = NULL, *to;

	/* libsmartcols prints the titles only if the table has a line: add an empty one */
	if (table && scols_table_is_empty(table) && !scols_table_is_noheadings(table))
		scols_table_new_line(table, NULL);
	if (table && scols_print_table_to_string(table, &text))
		text = NULL;
	scols_unref_table(table);
	to = text;
	for (const char *from = text; from && *from; *to++ = *from++)
		while (*from == '\n' && to > text && to[-1] == ' ')
			to--;
	while (to > text && isspace((unsigned char)to[-1]))
		to--;
	if (text)
		*to = '\0';
	return text;
}

int columns_print(struct libscols_table *table)
{
	bool titles = table && !scols_table_is_noheadings(table);
	_cleanup_free_ char *text = columns_text(table);
	size_t length = titles && text ? strcspn(text, "\n") : 0;

	if (!text) {
		tool_error("no memory for the table");
		return TOOL_FAILED;
	}
	if (length)
		printf("%s%.*s%s", terminal_style(STYLE_BOLD), (int)length, text,
		       terminal_style(STYLE_PLAIN));
	if (*text)
		puts(text + length);
	return tool_flush(TOOL_DONE);
}
