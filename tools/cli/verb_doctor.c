/* SPDX-License-Identifier: MIT */
#include <getopt.h>

#include "doctor/doctor.h"
#include "options.h"
#include "verbs.h"

int verb_doctor(int argc, char **argv)
{
	struct doctor_found found = {.registry = false};
	struct options options;
	struct doctor *doctor;
	int code = options_parse(argc, argv, &options);

	if (code >= 0)
		return code;
	if (argc - optind > 1)
		return tool_usage("one PROGRAM at a time, without its arguments");
	doctor = doctor_new();
	if (!doctor) {
		tool_error("no memory to look around");
		return TOOL_FAILED;
	}
	doctor_shim(doctor, &found);
	doctor_environment(doctor);
	doctor_registry(doctor, options.directory, &found);
	doctor_driver(doctor, &found);
	doctor_vulkan(doctor, &found);
	doctor_works(doctor, &found);
	if (optind < argc)
		doctor_program(doctor, argv[optind], &found);
	code = doctor_print(doctor, options.json);
	doctor_free(doctor);
	return code;
}
