/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_OPTIONS_H
#define GPUSHARE_TOOLS_OPTIONS_H
/* The options of all verbs. A verb has those that its usage text has. */
#include "copy/copy.h"
#include "top/top.h"

struct options {
	uint64_t given; /* a bit for each line of option_lines */
	const char *directory, *glob;
	bool json, force;
	const char *name, *attach;   /* of run: rules */
	const char *columns, *order; /* of ls: what is shown, what it is sorted by */
	bool uuids, names, bytes, untitled, deferred, events, follows;
	struct top_options top;
	uint64_t looks; /* of top; 0: not given */
	struct copy_request copy;
};

extern const struct option_line {
	const char *name;     /* "--count"; NULL: the end of the list */
	const char *argument; /* as in the usage text; "": it has none */
	/* Parse the value into a member. False: it makes no sense. */
	bool (*parse)(const char *value, void *out);
	size_t at;	   /* offset of the member in struct options */
	size_t mark;	   /* offset of a bool to set; 0: none */
	const char *wants; /* what the value should be, for a message */
	const char *help;
} option_lines[];

/* Whether the usage has the option, with that argument. */
bool option_is_of(const struct option_line *line, const char *usage);
bool option_is_directory(const char *value, void *out);
/* Whether the option was given. */
bool options_have(const struct options *options, const char *name);
/*
 * getopt_long() for the options in the usage of the verb argv[0]. Return -1 to continue at optind,
 * else the exit code. --help prints verb_help(argv[0]).
 */
int options_parse(int argc, char **argv, struct options *out);
/* The same for a verb whose only operand is [GLOB]; without it out->glob is NULL. */
int options_parse_glob(int argc, char **argv, struct options *out);

#endif
