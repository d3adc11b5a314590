/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOSER_H
#define GPUSHARE_REGISTRY_CLOSER_H
/* Closes descriptors in a separate thread, because close() may wait for another process, such as
 * the server of a FUSE file system. */
#include <stddef.h>

struct closer;

/*
 * Queue `fd` for the closer *place, without waiting. If *place is NULL, start a closer and store it
 * there. `place` NULL: use the closer that this process has for all such calls. One thread at a
 * time may use a place; the registry's lock protects the common one. If no closer can be started or
 * memory is out, close `fd` at once, which may wait.
 */
void closer_add(struct closer **place, int fd);
/* The number of queued descriptors, not counting the one that is being closed. `closer` may be
 * NULL. */
size_t closer_count(struct closer *closer);

#endif
