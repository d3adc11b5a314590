/* SPDX-License-Identifier: MIT */
/* gpushare-attach --complete OPTION, for completions/: the values that the option takes. */
#include <stdio.h>
#include <string.h>

#include "attach.h"

static const char formats[] =
#define X(name, text) text "\n"
    FORMATS(X)
#undef X
    ;

static const char dtypes[] =
#define X(id, alias, name, ...) alias "\n" name "\n"
    DTYPES(X)
#undef X
    ;

int attach_complete(const char *option)
{
	if (!strcmp(option, "--format"))
		fputs(formats, stdout);
	if (!strcmp(option, "--format") || !strcmp(option, "--dtype"))
		fputs(dtypes, stdout);
	return tool_flush(TOOL_DONE);
}
