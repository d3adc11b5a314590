/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_VERBS_H
#define GPUSHARE_TOOLS_VERBS_H
/* The verbs of `gpushare`, once: X(verb, arguments, what it does). A file each, verb_<verb>.c. */
#include "tool.h"

#define VERBS(X) \
	X(run, "[--name RULES] [--attach RULES] [--dir DIR] [--] APP [ARG]...", \
	  "run a program whose GPU buffers get names, or are other programs' buffers") \
	X(ls, "[--limbo] [--json] [--dir DIR] [GLOB]", \
	  "list the buffers that have a name, or those that were freed and are held for others") \
	X(events, "[--json] [--dir DIR] [GLOB]", \
	  "list the events that have a name, by which processes wait for each other's work") \
	X(stat, "[--json] [--dir DIR] [NAME]", \
	  "show all that is known of one buffer, or what the registry has to do") \
	X(watch, "[--count N] [--json] [--dir DIR] [GLOB]", \
	  "tell what happens to buffers, a line each, until it is interrupted") \
	X(rm, "[--dir DIR] NAME", \
	  "take a name away; the memory stays as it is, what is kept without an owner goes")

/* argv[0] is the verb. Returns a tool_exit and has said what went wrong. */
#define X(verb, arguments, summary) int verb_##verb(int argc, char **argv);
VERBS(X)
#undef X

/* What the verbs' shared options say. */
struct verb_options {
	const char *directory; /* --dir */
	bool json;	       /* --json */
	bool limbo;	       /* --limbo, of ls */
};

/* Parse those; `json` says whether --json is known, `limbo` the other. -1 to go on at optind, else the exit code. */
int verb_parse(int argc, char **argv, bool json, bool limbo, struct verb_options *out);
/* Usage of one verb on stdout. */
int verb_help(const char *verb);

#endif
