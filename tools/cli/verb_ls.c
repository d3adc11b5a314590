/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "listing.h"
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

static void put_size(uint64_t size, bool human, char cell[TABLE_CELL_MAX])
{
	char text[TOOL_TEXT_MAX];

	tool_format_size(size, text);
	if (human)
		snprintf(cell, TABLE_CELL_MAX, "%s", text);
	else
		snprintf(cell, TABLE_CELL_MAX, "%" PRIu64, size);
}

static void ls_fill(const struct gpushare_info *info, char (*cells)[TABLE_CELL_MAX], bool human)
{
	char text[TOOL_TEXT_MAX];

	snprintf(cells[NAME], TABLE_CELL_MAX, "%s", info->name);
	put_size(info->size, human, cells[SIZE]);
	put_size(info->base_size, human, cells[HELD]);
	tool_format_uuid(info->device_uuid, text);
	snprintf(cells[GPU], TABLE_CELL_MAX, "%.*s", human ? 12 : (int)strlen(text), text);
	show_owner(info, cells[OWNER]);
	snprintf(cells[ATTACHED], TABLE_CELL_MAX, "%" PRIu32, info->attachers);
	tool_format_age(show_age(info), cells[AGE]);
	if (show_has_rights(info))
		show_rights(info, cells[RIGHTS]);
	show_state(info, cells[STATE]);
	show_tags(info, cells[TAGS]);
}

int verb_ls(int argc, char **argv)
{
	static const struct listing ls = {
	    .columns = columns,
	    .count = COLUMNS,
	    .fill = ls_fill,
	    .list = gpushare_list,
	    .deferred = gpushare_list_deferred,
	};

	return listing_verb(argc, argv, &ls);
}
