/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SHIM_RESYNC_H
#define GPUSHARE_SHIM_SHIM_RESYNC_H
/* The callbacks of live_resync: what the preload reports to a restarted registry and shares
 * again. */
#include "core/buffer/resync.h"

extern const struct resync_calls shim_resync_calls;

/* Share again what the registry asked for, until `until_ms`. errno, context and capture stay. */
void shim_resync_share(int64_t until_ms);

#endif
