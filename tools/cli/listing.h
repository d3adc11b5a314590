/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_LISTING_H
#define GPUSHARE_TOOLS_LISTING_H
/* A verb that lists the results of one API call, for all names or for those that match a GLOB, as a
 * table or as JSON. */
#include "common/show.h"
#include "common/table.h"

struct listing {
	const struct table_column *columns;
	int count;
	/* Fill one row of the table. `human`: for a terminal, with rounded sizes and short
	 * UUIDs. */
	void (*fill)(const struct gpushare_info *info, char (*cells)[TABLE_CELL_MAX], bool human);
	show_list *list;
	show_list *deferred; /* used with --deferred; NULL: the verb has no such option */
};

/* Like a verb of verbs.h: report errors and return a tool_exit. */
int listing_verb(int argc, char **argv, const struct listing *listing);

#endif
