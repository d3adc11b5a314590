/* SPDX-License-Identifier: MIT */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_has_colour(int fd)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (no && *no)
		return false;
	return isatty(fd) && !(term && !strcmp(term, "dumb"));
}

const char *terminal_style(enum style style)
{
	static const char *const escapes[] = {
#define X(name, escape) escape,
	    STYLES(X)
#undef X
	};

	return terminal_has_colour(STDOUT_FILENO) ? escapes[style] : "";
}

int terminal_columns(void)
{
	struct winsize size;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}
