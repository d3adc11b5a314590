/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_OPTIONS_H
#define GPUSHARE_TOOLS_OPTIONS_H
/* The options of all verbs. A verb accepts the options in its usage text (verbs.h). */
#include "copy/copy.h"
#include "top/top.h"

struct options {
	uint64_t given; /* bit i: option_lines[i] was given */
	const char *directory, *glob;
	bool json, force;
	const char *name, *attach;   /* of run: rules */
	const char *columns, *order; /* of ls: columns to show, column to sort by */
	bool uuids, names, bytes, untitled, deferred, events, follows;
	struct top_options top;
	uint64_t looks;			    /* of top: number of readings; 0: not given */
	const char *listen, *tls, *trusted; /* of node; pull: not `listen`; nodes, ls: only `tls` */
	const char *announce;		    /* of node */
	const char *as;			    /* of node and pull */
	const char *via;		    /* of pull; so are `tags` */
	struct gpushare_tag tags[GPUSHARE_TAGS_MAX];
	size_t tag_count;
	bool nodes; /* of ls */
	struct copy_request copy;
};

extern const struct option_line {
	const char *name;     /* "--count"; NULL: the end of the list */
	const char *argument; /* as in the usage text; "": the option takes none */
	/* Parse the value into the member at `at`. Returns false if the value is invalid. */
	bool (*parse)(const char *value, void *out);
	size_t at;	   /* offset of the member in struct options */
	size_t mark;	   /* offset of a bool that is set to true; 0: none */
	const char *wants; /* description of valid values, for a message */
	const char *help;
} option_lines[];

/* Whether the usage text has this option with this argument. */
bool option_is_of(const struct option_line *line, const char *usage);
/* Whether the option was given. */
bool options_have(const struct options *options, const char *name);
/*
 * Parse the options of the verb argv[0], by its usage text. For --help, call verb_help(argv[0]).
 * Returns -1 if the verb can run; its operands begin at argv[optind]. Otherwise returns the exit
 * code.
 */
int options_parse(int argc, char **argv, struct options *out);
/* options_parse() for a verb whose only operand is [GLOB]. Without a GLOB, out->glob is NULL. */
int options_parse_glob(int argc, char **argv, struct options *out);

#endif
