/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "show.h"
#include "verbs.h"

enum column { NAME, SIZE, HELD, GPU, OWNER, ATTACHED, AGE, STATE, COLUMNS };

static const char *const titles[COLUMNS] = {"NAME",  "SIZE",	 "HELD", "GPU",
					    "OWNER", "ATTACHED", "AGE",	 "STATE"};
static const bool right[COLUMNS] = {[SIZE] = true, [HELD] = true, [ATTACHED] = true, [AGE] = true};

#define CELL_MAX (GPUSHARE_NAME_MAX + 1)

struct row {
	char cell[COLUMNS][CELL_MAX];
};

struct table {
	struct row *rows;
	size_t count, room;
	bool human; /* for a terminal: rounded sizes, short UUIDs */
};

static struct row *table_add(struct table *table)
{
	if (table->count == table->room) {
		size_t room = table->room ? 2 * table->room : 64;
		struct row *more = realloc(table->rows, room * sizeof(*more));

		if (!more)
			return NULL;
		table->rows = more;
		table->room = room;
	}
	memset(&table->rows[table->count], 0, sizeof(*table->rows));
	return &table->rows[table->count++];
}

static void put_size(const struct table *table, uint64_t size, char cell[CELL_MAX])
{
	char text[TOOL_TEXT_MAX];

	tool_format_size(size, text);
	if (table->human)
		snprintf(cell, CELL_MAX, "%s", text);
	else
		snprintf(cell, CELL_MAX, "%" PRIu64, size);
}

static int table_visit(const struct gpushare_info *info, void *user)
{
	struct table *table = user;
	struct row *row = table_add(table);
	char text[TOOL_TEXT_MAX], command[GPUSHARE_COMMAND_MAX + 1];

	if (!row)
		return 1;
	snprintf(row->cell[NAME], CELL_MAX, "%s", info->name);
	put_size(table, info->size, row->cell[SIZE]);
	put_size(table, info->base_size, row->cell[HELD]);
	tool_format_uuid(info->device_uuid, text);
	snprintf(row->cell[GPU], CELL_MAX, "%.*s", table->human ? 12 : (int)strlen(text), text);
	tool_printable(info->owner_command, command, sizeof(command));
	snprintf(row->cell[OWNER], CELL_MAX, "%s[%" PRId32 "]", command, info->owner_pid);
	snprintf(row->cell[ATTACHED], CELL_MAX, "%" PRIu32, info->attachers);
	tool_format_age(show_age(info), row->cell[AGE]);
	show_state(info, row->cell[STATE]);
	return 0;
}

static void print_row(const char *const cells[COLUMNS], const size_t widths[COLUMNS], int columns)
{
	for (int i = 0; i < columns; i++) {
		int width = (int)widths[i];

		if (i + 1 == columns && !right[i])
			printf("%s", cells[i]);
		else if (right[i])
			printf("%*s", width, cells[i]);
		else
			printf("%-*s", width, cells[i]);
		fputs(i + 1 < columns ? "  " : "\n", stdout);
	}
}

static void table_print(const struct table *table)
{
	size_t widths[COLUMNS];
	int columns = AGE + 1; /* nothing to say of any is no column */

	for (size_t at = 0; at < table->count; at++)
		if (*table->rows[at].cell[STATE])
			columns = COLUMNS;
	for (int i = 0; i < COLUMNS; i++) {
		widths[i] = strlen(titles[i]);
		for (size_t at = 0; at < table->count; at++)
			if (strlen(table->rows[at].cell[i]) > widths[i])
				widths[i] = strlen(table->rows[at].cell[i]);
	}
	print_row(titles, widths, columns);
	for (size_t at = 0; at < table->count; at++) {
		const char *cells[COLUMNS];

		for (int i = 0; i < COLUMNS; i++)
			cells[i] = table->rows[at].cell[i];
		print_row(cells, widths, columns);
	}
}

static int ls_table(struct gpushare_session *session, show_list *list, const char *glob)
{
	struct table table = {.human = isatty(STDOUT_FILENO)};
	int status = list(session, glob, table_visit, &table);

	if (!status)
		table_print(&table);
	free(table.rows);
	if (status == GPUSHARE_E_CANCELLED)
		tool_error("no memory for the list");
	else if (status)
		tool_failed(status);
	return status ? TOOL_FAILED : tool_flush(TOOL_DONE);
}

int verb_ls(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct verb_options options;
	show_list *list;
	const char *glob;
	int code = verb_parse(argc, argv, true, true, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage(
		    "one GLOB at a time; quote it, so that the shell leaves it alone");
	glob = argv[optind]; /* NULL where there is none */
	session = tool_open(options.directory);
	if (!session)
		return TOOL_FAILED;
	list = options.limbo ? gpushare_list_limbo : gpushare_list;
	return options.json ? show_list_json(session, list, glob) : ls_table(session, list, glob);
}
