/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINGER_H
#define GPUSHARE_SHIM_LINGER_H
/*
 * The preload's deferred frees: named cuMemAlloc memory that the program has freed while other
 * processes have it attached. The shim has no thread: the program's next cuMemFree, which waits for
 * the GPU anyway, gives back memory whose last attacher has left. If an allocation fails for lack
 * of memory, all deferred frees are done.
 */
#include "core/buffer/deferred.h"
#include "shim_live.h"

extern struct deferred linger_list;

/* Withdraw the name of `entry`, which is about to be freed. Return true if other processes have the
 * buffer attached. The caller then leaves the memory allocated and calls linger_keep(), after a
 * cuMemFreeAsync once the stream has reached the free. Or it calls share_end() and frees the memory
 * all the same. */
bool linger_withdraw(const struct live *entry);

/* Add `entry` to the deferred frees. False: out of memory, or the lock timed out. */
bool linger_keep(const struct live *entry);

/* Give back the memory that nobody has attached any more, and the oldest entries beyond the limits.
 * Call it only in a program call that has waited for the GPU. errno, context and captures stay
 * unchanged. `asks`: ask the registry, and wait for its answer; true only in a program call that
 * asks the registry anyway. */
void linger_sweep(bool asks);

/* Do all deferred frees now. Return true if there were any. */
bool linger_empty(void);

/* Withdraw and free these entries, which deferred_take_of() has taken off the list: their context
 * has ended, and their memory with it. */
void linger_end(struct deferred_entry *taken);

#endif
