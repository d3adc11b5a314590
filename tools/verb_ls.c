/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "show.h"
#include "table.h"
#include "verbs.h"

enum column { NAME, SIZE, HELD, GPU, OWNER, ATTACHED, AGE, RIGHTS, STATE, TAGS, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [NAME] = {.title = "NAME"},
    [SIZE] = {.title = "SIZE", .right = true},
    [HELD] = {.title = "HELD", .right = true},
    [GPU] = {.title = "GPU"},
    [OWNER] = {.title = "OWNER"},
    [ATTACHED] = {.title = "ATTACHED", .right = true},
    [AGE] = {.title = "AGE", .right = true},
    [RIGHTS] = {.title = "RIGHTS", .optional = true},
    [STATE] = {.title = "STATE", .optional = true},
    [TAGS] = {.title = "TAGS", .optional = true},
};

struct listing {
	struct table table;
	bool human; /* for a terminal: rounded sizes, short UUIDs */
};

static void put_size(const struct listing *listing, uint64_t size, char cell[TABLE_CELL_MAX])
{
	char text[TOOL_TEXT_MAX];

	tool_format_size(size, text);
	if (listing->human)
		snprintf(cell, TABLE_CELL_MAX, "%s", text);
	else
		snprintf(cell, TABLE_CELL_MAX, "%" PRIu64, size);
}

static int table_visit(const struct gpushare_info *info, void *user)
{
	struct listing *listing = user;
	char(*cells)[TABLE_CELL_MAX] = table_add(&listing->table);
	char text[TOOL_TEXT_MAX];

	if (!cells)
		return 1;
	snprintf(cells[NAME], TABLE_CELL_MAX, "%s", info->name);
	put_size(listing, info->size, cells[SIZE]);
	put_size(listing, info->base_size, cells[HELD]);
	tool_format_uuid(info->device_uuid, text);
	snprintf(cells[GPU], TABLE_CELL_MAX, "%.*s", listing->human ? 12 : (int)strlen(text), text);
	show_owner(info, cells[OWNER]);
	snprintf(cells[ATTACHED], TABLE_CELL_MAX, "%" PRIu32, info->attachers);
	tool_format_age(show_age(info), cells[AGE]);
	if (show_has_rights(info))
		show_rights(info, cells[RIGHTS]);
	show_state(info, cells[STATE]);
	show_tags(info, cells[TAGS]);
	return 0;
}

static int ls_table(struct gpushare_session *session, show_list *list, const char *glob)
{
	struct listing listing = {.table = {.columns = columns, .count = COLUMNS},
				  .human = isatty(STDOUT_FILENO)};
	int status = list(session, glob, table_visit, &listing);

	if (!status)
		table_print(&listing.table);
	table_finish(&listing.table);
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
