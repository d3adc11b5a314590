/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "common/beside.h"
#include "verbs.h"

/* Run gpushare-attach: put FILE NAME [OPTION]... becomes --into FILE NAME [OPTION]... */
int verb_put(int argc, char **argv)
{
	_cleanup_free_ char **words = NULL;

	if (argc >= 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")))
		return verb_help(argv[0]);
	if (argc < 3)
		return tool_usage("put wants the FILE, '-' for standard input, and then the NAME");
	if (argv[1][0] == '-' && argv[1][1])
		return tool_usage("put wants the FILE first, options behind; '%s' is none (say "
				  "'./%s' where it is)",
				  argv[1], argv[1]);
	words = calloc((size_t)argc + 1, sizeof(*words));
	if (!words) {
		tool_error("no memory for the arguments of gpushare-attach");
		return TOOL_FAILED;
	}
	words[0] = "--into";
	memcpy(words + 1, argv + 1, (size_t)(argc - 1) * sizeof(*words));
	return beside_attach(argv[0], argc, words);
}
