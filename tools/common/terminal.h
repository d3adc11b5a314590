/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_TERMINAL_H
#define GPUSHARE_TOOLS_TERMINAL_H
/* Terminals: their colours and width. */
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

/* True if `fd` is a terminal, TERM isn't "dumb", and NO_COLOR is unset or empty. Source:
 * no-color.org. */
bool terminal_has_colour(int fd);
/* The escape sequence of the style; "" if standard output has no colour. */
const char *terminal_style(enum style style);
/* The width of the terminal at standard output; 80 if it is no terminal. */
int terminal_columns(void);

#endif
