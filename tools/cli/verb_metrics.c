/* SPDX-License-Identifier: MIT */
#include <getopt.h>

#include "common/show.h"
#include "metrics.h"
#include "options.h"
#include "verbs.h"

/* Doesn't start a registry: without one, the metrics report that it is down. */
static int read_registry(const char *directory, struct gpushare_registry_info *out_info)
{
	const struct gpushare_open_options options = {.directory = directory, .no_autostart = 1};
	_tool_session_ struct gpushare_session *session = NULL;
	int status = gpushare_open(&options, &session);

	return status ? status : gpushare_stat_registry(session, out_info);
}

int verb_metrics(int argc, char **argv)
{
	struct gpushare_registry_info info;
	struct options options;
	int status, code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (optind != argc)
		return tool_usage("metrics are of all names: '%s' is one word too many",
				  argv[optind]);
	status = read_registry(options.directory, &info);
	if (status) {
		tool_failed(status);
		if (!options.json)
			metrics_print(stdout, NULL);
		return tool_flush(TOOL_FAILED);
	}
	if (options.json)
		return show_dump(show_registry_json(&info));
	metrics_print(stdout, &info);
	return tool_flush(TOOL_DONE);
}
