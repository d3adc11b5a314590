/* SPDX-License-Identifier: MIT */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINES 24
#define COLUMNS 80
#define LINES_MAX 1000
#define COLUMNS_MAX 1000

bool terminal_has_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no && *no)
		return false;
	return isatty(STDOUT_FILENO) && !(term && !strcmp(term, "dumb"));
}

const char *terminal_style(enum style style)
{
	static const char *const escapes[] = {
#define X(name, escape) escape,
	    STYLES(X)
#undef X
	};

	return terminal_has_colour() ? escapes[style] : "";
}

static int between(int value, int most, int otherwise)
{
	if (value <= 0)
		return otherwise;
	return value < most ? value : most;
}

void terminal_size(int *out_lines, int *out_columns)
{
	struct winsize size = {0};

	ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	*out_lines = between(size.ws_row, LINES_MAX, LINES);
	*out_columns = between(size.ws_col, COLUMNS_MAX, COLUMNS);
}
