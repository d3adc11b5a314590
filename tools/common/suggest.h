/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SUGGEST_H
#define GPUSHARE_TOOLS_SUGGEST_H
/* Suggests existing names for a mistyped one. */
#include "gpushare.h"

/*
 * Print the error of the last gpushare call. If the error is that `name` does not exist, also print
 * how long the call waited for it (wait_ms; 0: it did not wait), and suggest up to three existing
 * names within max(2, length / 3) edits, closest first. Returns TOOL_FAILED.
 */
int suggest_failed(struct gpushare_session *session, const char *name, unsigned int wait_ms,
		   int status);

#endif
