/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOSER_H
#define GPUSHARE_REGISTRY_CLOSER_H
/* Closes descriptors in a separate thread, because close() may wait for the process that made
 * the file. */
#include <stddef.h>

struct closer;

/*
 * Queue `fd` to be closed, without waiting. *place is the closer; if it is NULL, a new one is
 * started and stored there. `place` NULL: the closer that all callers of this process share. One
 * thread at a time may use a place; the registry's lock protects the shared one. If no closer can
 * be started or memory is out, `fd` is closed at once, which may wait.
 */
void closer_add(struct closer **place, int fd);
/* The number of queued descriptors, without the one that is being closed. `closer` may be NULL. */
size_t closer_count(struct closer *closer);

#endif
