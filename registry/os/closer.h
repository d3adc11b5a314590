/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOSER_H
#define GPUSHARE_REGISTRY_CLOSER_H
/* Closes descriptors in a separate thread, because close() may wait for the process that made
 * the file. */
#include <stddef.h>

struct closer;

/*
 * Does not wait. `place` chooses the closer: NULL: the one that all of this process share; else the
 * one there, or a new one if that is NULL. One thread at a time may use a place; the registry's lock
 * protects the shared one. If no closer can be started or memory is out, it closes `fd` at once, and
 * may wait.
 */
void closer_add(struct closer **place, int fd);
/* The number of descriptors that wait, without the one that is being closed. `closer` may be
 * NULL. */
size_t closer_count(struct closer *closer);

#endif
