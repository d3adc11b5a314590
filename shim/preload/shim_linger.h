/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINGER_H
#define GPUSHARE_SHIM_LINGER_H
/*
 * The preload's deferred frees: named memory of cuMemAlloc that the program has freed while other processes
 * have it attached. There is no thread of ours: what the last of them has left goes at the program's
 * next allocation or free, and all of it when an allocation fails for want of memory.
 */
#include "core/buffer/deferred.h"
#include "shim_live.h"

/* Is anything here? One atomic load. */
bool linger_any(void);

/* Has the program freed what lies from `base` on, `size` bytes, of what is here? */
bool linger_holds(uint64_t base, uint64_t size);

/* `entry` is about to be freed: its name goes. True: others have it attached, its memory is to stay;
 * linger_keep() or linger_drop() has the next word. */
bool linger_withdraw(const struct live *entry);

/* It is here from now on. `waits`: in a call of the program that waits for the GPU anyway; what has
 * no room is given back without a wait else. */
void linger_keep(const struct driver *driver, const struct live *entry, bool waits);

/* It is given back at once, without a wait where that can be: nobody has it. NULL: no context is known to
 * be the current one. */
void linger_pass(const struct driver *driver, const struct live *entry, cu_context current);

/* Its memory goes, attached or not. */
void linger_drop(const struct live *entry);

/* Give back what nobody has attached any more, without a wait for the registry. errno, context and captures
 * stay. */
void linger_sweep(bool waits);
/* The same by a question to the registry: only in a call of the program that asks it something anyway. */
void linger_ask(bool waits);

/* Give back everything. True: there was something. */
bool linger_empty(void);

/* A context is about to end: what is here of it is taken out, and ends with it or, if the context
 * stays after all, is put back. */
struct deferred_entry *linger_take_of(cu_context context);
void linger_end(struct deferred_entry *taken);
void linger_return(struct deferred_entry *taken);

#endif
