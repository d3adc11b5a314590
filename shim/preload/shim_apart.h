/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_APART_H
#define GPUSHARE_SHIM_APART_H
/*
 * A stream of our own in a context, which waits for nothing. It stays: what is freed by cuMemFreeAsync goes
 * when its context is next synchronized, and never if its stream is destroyed before (measured on driver
 * 580: the memory is there until a cuMemFree or the context's end).
 * None is made to wait for a stream of the program's that is held up. Streams share the hardware's queues
 * (CUDA_DEVICE_MAX_CONNECTIONS, 8 without it), and behind our wait in such a queue another stream of the
 * program's would stand, which may be the one that was to let the first go.
 */
#include <stdbool.h>

#include "cuda/driver.h"

/* Is there one in the current context, which is `context`, or can it be made? False also where the driver
 * can't, or there are too many contexts. */
bool apart_open(const struct driver *driver, cu_context context);

/* cuMemFreeAsync in that stream of the current context, which is `context`: unlike cuMemFree it does
 * not wait. CU_NOT_SUPPORTED: there is none. */
cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer);

/* Is there a stream of ours in any context? One atomic load. */
bool apart_any(void);

/* Wait until then, but some milliseconds at least, for what was freed so, that there be room for an allocation that has failed: that of
 * stream-ordered memory would have waited for it, in its stream. True: some of it has come. */
bool apart_drain(const struct driver *driver, int64_t until_ms);

/* The context is about to end, and its streams with it. */
void apart_forget(cu_context context);

#endif
