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

/* Withdraw the name of `entry`, which is about to be freed. Return true if others have it attached:
 * its memory must stay, and linger_keep() must follow; or share_end(), to free it all the same. */
bool linger_withdraw(const struct live *entry);

/* Add `entry` to the deferred frees. False: out of memory, or the lock timed out. */
bool linger_keep(const struct live *entry);

/* Give back the memory that nobody has attached any more, and what exceeds the limits. Call it only
 * in a program call that has waited for the GPU. errno, context and captures stay unchanged.
 * `asks`: ask the registry, and wait for its answer; true only in a program call that asks the
 * registry anyway. */
void linger_sweep(bool asks);

/* Give back all deferred frees. Return true if there was one. */
bool linger_empty(void);

/* The context of these entries, which deferred_take_of() has taken off the list, has ended. */
void linger_end(struct deferred_entry *taken);

#endif
