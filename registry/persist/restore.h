/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_RESTORE_H
#define GPUSHARE_REGISTRY_RESTORE_H
/*
 * Starting after a predecessor, and leaving for a successor. The predecessor left records, stored
 * descriptors, and clients that will reconnect. Until its client reconnects, a session of a
 * predecessor is a disconnected session: it has no connection, and ends with its process.
 * restore_open() and restore_leave() take the registry's lock; call the others with the lock held.
 */
#include "context/registry.h"

/* Take over what a predecessor left in the directory, and write records from now on. false: it
 * failed, which is logged. */
bool restore_open(struct registry *registry, const char *directory);
/* Whether the main loop has to call restore_next_dead() regularly. */
bool restore_looks(const struct registry *registry);
/* The id of a disconnected session that has nothing left, or whose process can't be watched and has
 * ended. 0: none. */
uint32_t restore_next_dead(const struct registry *registry);
/* Answer no more requests. Leave what is shared to a successor. */
void restore_leave(struct registry *registry);

#endif
