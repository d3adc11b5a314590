/* SPDX-License-Identifier: MIT */
#include <getopt.h>

#include "doctor/doctor.h"
#include "options.h"
#include "verbs.h"

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
	doctor_driver(&found);
	doctor_vulkan(&found);
	doctor_works(&found);
	if (optind < argc)
		doctor_program(argv[optind], &found);
	return doctor_print(options.json);
}
