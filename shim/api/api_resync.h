/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_RESYNC_H
#define GPUSHARE_SHIM_API_RESYNC_H
/* A session's resync callbacks: they tell a restarted registry of its buffers and share them
 * again. */
#include "core/buffer/resync.h"

struct gpushare_session;

extern const struct resync_calls session_resync_calls;

/* Until `until_ms`, share again the buffers that the registry asked for. gpushare_explain() is
 * unchanged afterwards. The caller holds no lock. */
void session_share_wanted(struct gpushare_session *session, int64_t until_ms);

#endif
