/* SPDX-License-Identifier: MIT */
#include <getopt.h>

#include "verbs.h"

int verb_rm(int argc, char **argv)
{
	_tool_session_ struct gpushare_session *session = NULL;
	struct verb_options options;
	int status, code = verb_parse(argc, argv, false, false, &options);

	if (code >= 0)
		return code;
	if (argc - optind != 1)
		return tool_usage("rm wants one NAME");
	session = tool_open(options.directory);
	if (!session)
		return TOOL_FAILED;
	status = gpushare_unlink(session, argv[optind]);
	return status ? tool_failed(status) : TOOL_DONE;
}
