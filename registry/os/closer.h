/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOSER_H
#define GPUSHARE_REGISTRY_CLOSER_H
/* Closes descriptors in a separate thread, because close() may wait for the process that made
 * the file. */

#include <stddef.h>

struct closer;

/* Returns *place. If it is NULL, starts a closer there first. NULL: out of memory, or no thread
 * could be started. */
struct closer *closer_at(struct closer **place);
/* Does not wait. If `closer` is NULL or memory is out, it closes `fd` at once, and may wait. */
void closer_add(struct closer *closer, int fd);
/* The number of descriptors that wait, without the one that is being closed. */
size_t closer_count(struct closer *closer);
/* The thread ends when it has closed all descriptors; this call does not wait for that. */
void closer_end(struct closer *closer);

#endif
