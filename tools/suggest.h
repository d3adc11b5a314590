/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_SUGGEST_H
#define GPUSHARE_TOOLS_SUGGEST_H
/* Names that a mistyped one may have meant. */
#include "gpushare.h"

#define SUGGEST_MAX (3 * (GPUSHARE_NAME_MAX + 8) + 32)

/* "; did you mean "weights" or "wight"?", of up to three names within max(2, length / 3) edits, closest first;
 * "" where there is none, or `status` tells of something else than a missing name. Asks the registry, so
 * gpushare_explain() is another one then. */
void suggest(struct gpushare_session *session, const char *name, int status, char out[SUGGEST_MAX]);
/* As tool_failed(), with that behind it. */
int suggest_failed(struct gpushare_session *session, const char *name, int status);

#endif
