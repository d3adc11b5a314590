/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_APART_H
#define GPUSHARE_SHIM_APART_H
/*
 * One stream of the shim's own per context, in which the shim calls cuMemFreeAsync. The shim never
 * destroys the stream. The driver releases memory freed in it when the context is next
 * synchronized. If the stream is destroyed before, the memory stays until a cuMemFree or the end of
 * the context (measured on driver 580).
 *
 * The stream never waits for a stream of the program. Streams share hardware queues
 * (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default). A wait in such a queue blocks other streams of the
 * program behind it. One of the blocked streams may have to run before the awaited stream can go
 * on: a deadlock.
 */
#include <stdbool.h>

#include "cuda/driver.h"

/* Make the stream of `context`, which must be current, if there is none. Return false if the driver
 * lacks a call or refuses, or if there are too many contexts. */
bool apart_open(const struct driver *driver, cu_context context);

/* Call cuMemFreeAsync in the stream of `context`, which must be current. Unlike cuMemFree this does
 * not wait. CU_NOT_SUPPORTED: there is no such stream. */
cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer);

/* Is there a stream of the shim in any context? One atomic load. */
bool apart_any(void);

/* Wait for the frees of apart_free(), to make room after an allocation has failed. Wait until
 * `until_ms`, but some milliseconds at least. Without the shim, a stream-ordered allocation would
 * have waited in its stream for such a free. Return true if some memory was released. */
bool apart_drain(const struct driver *driver, int64_t until_ms);

/* Forget the stream of `context`, which is about to end. */
void apart_forget(cu_context context);

#endif
