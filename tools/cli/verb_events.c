/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "listing.h"
#include "verbs.h"

enum column { NAME, GPU, OWNER, OPENED, AGE, COLUMNS };

static const struct table_column columns[COLUMNS] = {
    [NAME] = {.title = "NAME"},	  [GPU] = {.title = "GPU"},
    [OWNER] = {.title = "OWNER"}, [OPENED] = {.title = "OPENED", .right = true},
    [AGE] = {.title = "AGE"},
};

static void events_fill(const struct gpushare_info *info, char (*cells)[TABLE_CELL_MAX], bool human)
{
	(void)human;
	snprintf(cells[NAME], TABLE_CELL_MAX, "%s", info->name);
	tool_format_uuid(info->device_uuid, cells[GPU]);
	show_owner(info, cells[OWNER]);
	snprintf(cells[OPENED], TABLE_CELL_MAX, "%" PRIu32, info->attachers);
	tool_format_age(show_age(info), cells[AGE]);
}

int verb_events(int argc, char **argv)
{
	static const struct listing events = {.columns = columns,
					      .count = COLUMNS,
					      .fill = events_fill,
					      .list = gpushare_list_events};

	return listing_verb(argc, argv, &events);
}
