/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SUGGEST_H
#define GPUSHARE_TOOLS_SUGGEST_H
/* Suggests existing names for a mistyped one. */
#include "gpushare.h"

/*
 * Print the error of the last call, as tool_failed() does. If a name is missing, add how long the
 * call waited for it (wait_ms; 0: not at all). Also suggest up to three of the registry's names
 * within max(2, length / 3) edits, closest first. Returns TOOL_FAILED.
 */
int suggest_failed(struct gpushare_session *session, const char *name, unsigned int wait_ms,
		   int status);

#endif
