/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SUGGEST_H
#define GPUSHARE_TOOLS_SUGGEST_H
/* Names that a mistyped one may have meant. */
#include "gpushare.h"

/* As tool_failed(). Of a missing name it also says how long it was waited for (0: not at all), and up to three
 * names within max(2, length / 3) edits, closest first, for which the registry is asked. */
int suggest_failed(struct gpushare_session *session, const char *name, unsigned int wait_ms,
		   int status);

#endif
