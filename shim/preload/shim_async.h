/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ASYNC_H
#define GPUSHARE_SHIM_ASYNC_H
/*
 * Attached buffers that the program has freed in stream order: each is detached once its stream has
 * got so far; and buffers of its own, freed so: those that others have attached (shim_linger.h), and those
 * without a name any more, which are given back then. There is no thread of ours: it is done at the
 * program's next allocation or free after that, or when an allocation fails for want of memory. No stream
 * of ours waits for the program's: see shim_apart.h. Memory opened from an IPC handle stays mapped
 * until the program frees something with cuMemFree: closing a handle waits for all of the GPU's work.
 */
#include "shim_live.h"

/* Is anything here? One atomic load. */
bool async_any(void);

/* Is anything waiting for its stream? One atomic load. */
bool async_waits(void);

/* A stream's, or the current one; NULL: neither is to be had. */
cu_context async_context(const struct driver *driver, cu_stream stream);
/* `entry` ends behind what the stream holds now. Anything but CU_OK: nothing has changed. */
cu_result async_defer(const struct driver *driver, const struct live *entry, cu_stream stream);

/* Give back what is due, a few at a time. errno, context and capture stay. `waits`: for the registry, too: only
 * in a call of the program that may be named. */
void async_sweep(bool waits);
/* The same of that one: an idle stream has got so far already. */
void async_ask(uint64_t pointer);

/* Close the handles of what has ended: in a call of the program that waits for the GPU anyway. */
void async_close(void);

/* Wait for what is waiting until then. True: some was given back. */
bool async_drain(int64_t until_ms);

/* Is that pointer waiting for its end? The program has freed it, but where it had attached the
 * buffer more than once: ask live_take() first. */
bool async_holds(uint64_t pointer);

/* live_pooled() of what waits for its stream. */
uint64_t async_pooled(unsigned int pool);

/* live_list(), live_count() and live_get() of what the registry does not know to be over. */
bool async_list(struct resync *resync);
void async_count(gpushare_Hold *out_hold);
bool async_get(uint64_t pointer, uint64_t generation, struct live *out_entry);

/* A context is about to end: what waits in it is taken off, and ends behind it or, if the context
 * stays after all, waits on. */
struct pending;
struct pending *async_take_of(cu_context context);
void async_end(const struct driver *driver, cu_context context, struct pending *taken);
void async_return(struct pending *taken);

#endif
