/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "common/beside.h"
#include "verbs.h"

int verb_get(int argc, char **argv)
{
	if (argc < 2)
		return tool_usage("get what? NAME is missing");
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return verb_help(argv[0]);
	return beside_attach(argv[0], argc - 1, argv + 1);
}
