/* SPDX-License-Identifier: MIT */
#include "listing.h"

#include <getopt.h>
#include <unistd.h>

#include "verbs.h"

struct filled {
	const struct listing *listing;
	struct table table;
	bool human;
};

static int visit(const struct gpushare_info *info, void *user)
{
	struct filled *filled = user;
	char(*cells)[TABLE_CELL_MAX] = table_add(&filled->table);

	if (!cells)
		return 1;
	filled->listing->fill(info, cells, filled->human);
	return 0;
}

static int print(struct gpushare_session *session, const struct listing *listing, show_list *list,
		 const char *glob)
{
	struct filled filled = {.listing = listing,
				.table = {.columns = listing->columns, .count = listing->count},
				.human = isatty(STDOUT_FILENO)};
	int status = list(session, glob, visit, &filled);

	if (!status)
		table_print(&filled.table);
	table_finish(&filled.table);
	if (status == GPUSHARE_E_CANCELLED)
		tool_error("no memory for the list");
	else if (status)
		tool_failed(status);
	return status ? TOOL_FAILED : tool_flush(TOOL_DONE);
}

int listing_verb(int argc, char **argv, const struct listing *listing)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct verb_options options;
	show_list *list;
	const char *glob;
	int code = verb_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage(
		    "one GLOB at a time; quote it, so that the shell leaves it alone");
	glob = argv[optind]; /* NULL if none was given */
	session = tool_open(options.directory, false);
	if (!session)
		return TOOL_FAILED;
	list = options.deferred && listing->deferred ? listing->deferred : listing->list;
	return options.json ? show_list_json(session, list, glob)
			    : print(session, listing, list, glob);
}
