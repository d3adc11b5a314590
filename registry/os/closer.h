/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_CLOSER_H
#define GPUSHARE_REGISTRY_CLOSER_H
/* Closes descriptors in a thread of its own: closing may wait for whoever made the file. */

#include <stddef.h>

struct closer;

/* The one there, begun where there is none. NULL: out of memory, or no thread to be had. */
struct closer *closer_at(struct closer **place);
/* Does not wait. `closer` NULL, or no memory left: it is closed here and now. */
void closer_add(struct closer *closer, int fd);
/* How many wait to be closed; the one that it is at is not among them. */
size_t closer_count(struct closer *closer);
/* Its thread ends when it has closed what it was given; nobody waits for that. */
void closer_end(struct closer *closer);

#endif
