/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RESYNC_H
#define GPUSHARE_SHIM_RESYNC_H
/*
 * A registry that was restarted is told what the program shares and has attached, in the program's
 * next call that concerns the registry: names and generations first, in that call's turn on the line;
 * then, in nobody's turn, the memory of what the registry wants again, which takes driver calls. What
 * a call has no time for is left to the next one.
 */
#include "client/client.h"

/* A client_resync. */
int resync_tell(struct client *client, void *owner, int64_t deadline_ms);

/* Share again what was asked for, until then; one thread at a time. errno, context and capture stay. */
void resync_share_wanted(int64_t until_ms);

#endif
