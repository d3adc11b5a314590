/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINGER_H
#define GPUSHARE_SHIM_LINGER_H
/*
 * The preload's deferred frees: named cuMemAlloc memory that the program has freed while other
 * processes have it attached. The shim has no thread: the program's next allocation or free gives
 * back memory whose last attacher has left. If an allocation fails for lack of memory, all deferred
 * frees are done.
 */
#include "core/buffer/deferred.h"
#include "shim_live.h"

/* Is there a deferred free? One atomic load. */
bool linger_any(void);

/* Is there a deferred free whose pointer lies in the `size` bytes from `base` on? */
bool linger_holds(uint64_t base, uint64_t size);

/* Withdraw the name of `entry`, which is about to be freed. Return true if others have it attached:
 * its memory must stay, and linger_keep() or linger_drop() must follow. */
bool linger_withdraw(const struct live *entry);

/* Add `entry` to the deferred frees. Give back at once what exceeds their limits. `waits`: giving
 * back may wait for the GPU, because the program's call does anyway. */
void linger_keep(const struct driver *driver, const struct live *entry, bool waits);

/* Free `entry`, which nobody has attached, at once, and without a wait if possible. `current` is
 * the current context; NULL: it is unknown. */
void linger_pass(const struct driver *driver, const struct live *entry, cu_context current);

/* Tell the registry that the memory, which others have attached, ends. The caller then frees it. */
void linger_drop(const struct live *entry);

/* Give back the memory that nobody has attached any more, without waiting for the registry.
 * `waits`: as for linger_keep(). errno, context and captures stay unchanged. */
void linger_sweep(bool waits);
/* The same, but ask the registry. Call it only in a program call that asks the registry anyway. */
void linger_ask(bool waits);

/* Give back all deferred frees. Return true if there was one. */
bool linger_empty(void);

/* `context` is about to end. linger_take_of() takes its deferred frees off the list. linger_end()
 * ends them after the context has ended. linger_return() puts them back if the context stays. */
struct deferred_entry *linger_take_of(cu_context context);
void linger_end(struct deferred_entry *taken);
void linger_return(struct deferred_entry *taken);

#endif
