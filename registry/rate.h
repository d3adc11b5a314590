/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RATE_H
#define GPUSHARE_REGISTRY_RATE_H
/* How fast buffers are published, for those who watch: an events_tick. Wants the lock held. */
#include "registry.h"

void rate_tick(struct registry *registry, int64_t elapsed_ns);

#endif
