/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_LISTING_H
#define GPUSHARE_TOOLS_LISTING_H
/* A verb that lists what one of the API's calls gives, of all names or those that fit a GLOB: as a table
 * or as JSON. */
#include "show.h"
#include "table.h"

struct listing {
	const struct table_column *columns;
	int count;
	/* One line of them; `human`: for a terminal, with rounded sizes and short UUIDs. */
	void (*fill)(const struct gpushare_info *info, char (*cells)[TABLE_CELL_MAX], bool human);
	show_list *list;
	show_list *deferred; /* with --deferred; NULL: there is no such option */
};

/* As a verb of verbs.h: returns a tool_exit and has said what went wrong. */
int listing_verb(int argc, char **argv, const struct listing *listing);

#endif
