/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_APART_H
#define GPUSHARE_SHIM_APART_H
/*
 * Streams of our own in a context: one that no work of the program's holds up, and a few for what comes
 * behind such work, so that a stream that is held up holds up what is freed behind it alone. They stay: what is freed by cuMemFreeAsync goes when its context is next
 * synchronized, and never if its stream is destroyed before (measured on driver 580: the memory is
 * there until a cuMemFree or the context's end).
 */
#include <stdbool.h>

#include "driver.h"

/* cuMemFreeAsync in that stream of the current context, which is `context`: unlike cuMemFree it does
 * not wait. CU_NOT_SUPPORTED: the driver can't, or there are too many contexts. */
cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer);

/* A stream of ours in the current context, which is `context`: what it is given comes behind what
 * `stream` has so far, if not all of that is done, and stays to come when that one is destroyed. NULL: there is none. */
cu_stream apart_behind(const struct driver *driver, cu_context context, cu_stream stream);

/* Is there a stream of ours in any context? One atomic load. */
bool apart_any(void);

/* The context is about to end, and its streams with it. */
void apart_forget(cu_context context);

#endif
