/* SPDX-License-Identifier: MIT */
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
