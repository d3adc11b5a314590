/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdlib.h>

#include "doctor/doctor.h"
#include "node/address.h"
#include "options.h"
#include "verbs.h"

/* Check the list of nodes, if GPUSHARE_NODES is set. */
static void check_nodes(void)
{
	char why[NODES_WHY_MAX];
	struct nodes nodes;

	if (!getenv("GPUSHARE_NODES"))
		return;
	if (nodes_read(&nodes, why))
		doctor_ok("nodes", "GPUSHARE_NODES lists %zu nodes; 'gpushare nodes' asks them",
			  nodes.count);
	else
		doctor_warn("nodes",
			    "correct the list, or name nodes by addresses: tls://HOST:PORT", "%s",
			    why);
	nodes_free(&nodes);
}

int verb_doctor(int argc, char **argv)
{
	struct doctor_found found = {.registry = false};
	struct options options;
	int code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage("one PROGRAM at a time, without its arguments");
	doctor_shim(&found);
	doctor_environment();
	doctor_registry(options.directory, &found);
	check_nodes();
	doctor_driver(&found);
	doctor_vulkan(&found);
	doctor_works(&found);
	if (optind < argc)
		doctor_program(argv[optind], &found);
	return doctor_print(options.json);
}
