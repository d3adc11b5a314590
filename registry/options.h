/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_OPTIONS_H
#define GPUSHARE_REGISTRY_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

struct options {
	bool foreground;
	const char *directory;	  /* NULL: as the environment says */
	struct settings settings; /* the file's, and over them what the command line says */
	bool orphan;
	bool replace;
	bool is_system;
	const char *group; /* of is_system; NULL: all */
	bool keeper;
	int ready_fd; /* -1: none */
};

/* Exit status to leave with at once, or -1 to go on. */
int options_parse(struct options *options, int argc, char **argv);

#endif
