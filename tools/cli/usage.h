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
	char argument[USAGE_WORD_MAX]; /* an option's argument, such as DIR; "": none */
	bool option;
	bool again; /* ends in "...": may be repeated */
};

/* Parse the next word. Return the position after it; NULL at the end. */
const char *usage_next(const char *at, struct usage_word *word);
/* Whether the usage text has the option (--output means -o). If so and `word` is not NULL, *word
 * describes the option. */
bool usage_find(const char *usage, const char *option, struct usage_word *word);
/* Print `begin` ("usage: COMMAND") and the usage text, in lines that fit a terminal. */
void usage_print(const char *begin, const char *usage);

#endif
