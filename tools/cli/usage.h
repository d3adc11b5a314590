/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_USAGE_H
#define GPUSHARE_TOOLS_USAGE_H
/*
 * Usage texts, as in verbs.h: "[-o FILE] [--json] NAME [GLOB]...". Help, completion and the parser
 * read options and operands from them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USAGE_WORD_MAX 64

struct usage_word {
	char text[USAGE_WORD_MAX];     /* without brackets and dots */
	char argument[USAGE_WORD_MAX]; /* of an option such as --dir DIR; "": it has none */
	bool option;
	bool again; /* ends in "...": may be repeated */
};

/* Parse the next word. Return the position after it; NULL at the end. */
const char *usage_next(const char *at, struct usage_word *word);
/* Whether the usage has the option; --output is -o. `word`: NULL, or gets it. */
bool usage_find(const char *usage, const char *option, struct usage_word *word);
/* Print "usage: COMMAND USAGE" in lines that fit a terminal. */
void usage_print(const char *begin, const char *usage);
/* An option's value is parsed into a member of a struct. False: it makes no sense. */
typedef bool usage_value(const char *value, void *out);
usage_value usage_flag, usage_text, usage_directory, usage_size, usage_seconds, usage_number;

struct usage_option {
	const char *name; /* "--count"; NULL: the end of the table */
	usage_value *parse;
	size_t at;	   /* offset of the value in the struct */
	const char *wants; /* what the value should be, for the message */
	size_t mark;	   /* offset of a bool to set; 0: none */
};

/*
 * getopt_long() for the options of `usage`, all of which are in the table, which may have more.
 * *given: NULL, or gets a bit for each option of the table that was given. Return -1 to continue at
 * optind, else the exit code. --help prints verb_help(argv[0]).
 */
int usage_parse(int argc, char **argv, const char *usage, const struct usage_option *options,
		void *out, uint32_t *given);
/* The same for a verb whose only operand is [GLOB]; NULL: there is none. */
int usage_parse_glob(int argc, char **argv, const struct usage_option *options, void *out,
		     const char **out_glob);

#endif
