/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_RESYNC_H
#define GPUSHARE_SHIM_API_RESYNC_H
/* What a session tells a registry that was restarted, and shares again: its resync's calls. */
#include "core/buffer/resync.h"

struct gpushare_session;

extern const struct resync_calls session_resync_calls;

/* Share again what was asked for, until then. What gpushare_explain() says stays. No lock is held. */
void session_share_wanted(struct gpushare_session *session, int64_t until_ms);

#endif
