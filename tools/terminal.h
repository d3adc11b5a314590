/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TERMINAL_H
#define GPUSHARE_TOOLS_TERMINAL_H
/* What standard output can show. */
#include <stdbool.h>

/* X(name, escape) */
#define STYLES(X) \
	X(PLAIN, "\033[0m") \
	X(BOLD, "\033[1m") \
	X(RED, "\033[31m") \
	X(GREEN, "\033[32m") \
	X(YELLOW, "\033[33m")

enum style {
#define X(name, escape) STYLE_##name,
	STYLES(X)
#undef X
};

/* A terminal, not a dumb one, and no NO_COLOR in the environment. Source: no-color.org. */
bool terminal_has_colour(void);
/* What turns the style on; "" where there is no colour. */
const char *terminal_style(enum style style);
void terminal_size(int *out_lines, int *out_columns);

#endif
