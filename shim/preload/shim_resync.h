/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SHIM_RESYNC_H
#define GPUSHARE_SHIM_SHIM_RESYNC_H
/* What the preload tells a registry that was restarted, and shares again: live_resync's calls. */
#include "core/buffer/resync.h"

extern const struct resync_calls shim_resync_calls;

/* Share again what was asked for, until then. errno, context and capture stay. */
void shim_resync_share(int64_t until_ms);

#endif
