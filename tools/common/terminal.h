/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TERMINAL_H
#define GPUSHARE_TOOLS_TERMINAL_H
/* Colours of the terminal at standard output. */
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

/* True if standard output is a terminal, TERM isn't "dumb", and NO_COLOR is unset or empty.
 * Source: no-color.org. */
bool terminal_has_colour(void);
/* The escape sequence of the style; "" if terminal_has_colour() is false. */
const char *terminal_style(enum style style);
/* The width of the terminal at standard output; 80 if it is no terminal. */
int terminal_columns(void);

#endif
