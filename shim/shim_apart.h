/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_APART_H
#define GPUSHARE_SHIM_APART_H
/*
 * Streams of our own in a context: one that no work of the program's holds up, and a few for what comes
 * behind such work, so that a stream that is held up holds up what is freed behind it alone. They stay:
 * what is freed by cuMemFreeAsync goes when its context is next synchronized, and never if its stream is
 * destroyed before (measured on driver 580: the memory is there until a cuMemFree or the context's end).
 */
#include <stdbool.h>

#include "driver.h"

/* cuMemFreeAsync in that stream of the current context, which is `context`: unlike cuMemFree it does
 * not wait. CU_NOT_SUPPORTED: the driver can't, or there are too many contexts. */
cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer);

/* The same behind what `stream` of that context has so far, also where that one is destroyed then.
 * CU_NOT_SUPPORTED: nothing was done. */
cu_result apart_free_behind(const struct driver *driver, cu_context context, cu_stream stream,
			    cu_deviceptr pointer);

/* Is there a stream of ours in any context? One atomic load. */
bool apart_any(void);

/* Wait until then for what was freed so, that there be room for an allocation that has failed: that of
 * stream-ordered memory would have waited for it, in its stream. True: some of it has come. */
bool apart_drain(const struct driver *driver, int64_t until_ms);

/* The context is about to end, and its streams with it. */
void apart_forget(cu_context context);

#endif
