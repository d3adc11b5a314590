/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/suggest.h"
#include "options.h"
#include "verbs.h"

struct names {
	char (*all)[GPUSHARE_NAME_MAX + 1];
	size_t count;
};

static int collect(const struct gpushare_info *info, void *user)
{
	struct names *names = user;
	void *more = realloc(names->all, (names->count + 1) * sizeof(*names->all));

	if (!more)
		return 1;
	names->all = more;
	strcpy(names->all[names->count++], info->name);
	return 0;
}

static int remove_one(struct gpushare_session *session, const char *name, bool tells)
{
	int status = gpushare_unlink(session, name);

	if (status)
		return suggest_failed(session, name, 0, status);
	if (tells)
		printf("removed %s\n", name);
	return TOOL_DONE;
}

static int remove_matching(struct gpushare_session *session, const char *glob)
{
	struct names names = {.count = 0};
	int status = gpushare_list(session, glob, collect, &names), code = TOOL_DONE;

	if (status)
		code = tool_failed(status);
	for (size_t i = 0; i < names.count && !status; i++)
		if (remove_one(session, names.all[i], true))
			code = TOOL_FAILED;
	if (!status && !names.count) {
		tool_error("no buffer's name matches '%s'", glob);
		code = TOOL_FAILED;
	}
	free(names.all);
	return code;
}

int verb_rm(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct options options;
	int code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (optind == argc)
		return tool_usage("rm wants a NAME, or several, or a pattern");
	session = tool_open(options.directory, false);
	if (!session)
		return TOOL_FAILED;
	code = TOOL_DONE;
	for (int i = optind; i < argc; i++)
		if (tool_is_pattern(argv[i]) ? remove_matching(session, argv[i])
					     : remove_one(session, argv[i], argc - optind > 1))
			code = TOOL_FAILED;
	return tool_flush(code);
}
