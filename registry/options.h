/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_OPTIONS_H
#define GPUSHARE_REGISTRY_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

#include "settings.h"

#define OPTIONS_CONFIG_MAX 512

struct options {
	bool foreground;
	const char *directory;		 /* NULL: as the environment says */
	struct settings settings;	 /* the file's, and over them what the command line says: */
	long idle_exit_s, keep_limit;	 /* -1: nothing */
	char config[OPTIONS_CONFIG_MAX]; /* --config, as an absolute path; "": none */
	bool orphan;
	bool replace;
	bool is_system;
	const char *group; /* of is_system; NULL: all */
	bool keeper;
	int ready_fd; /* -1: none */
};

/* Exit status to leave with at once, or -1 to go on. */
int options_parse(struct options *options, int argc, char **argv);
/* As if --config had named that file; where it is not to be used, all stays as it was. */
void options_inherit(struct options *options, const char *config);

#endif
