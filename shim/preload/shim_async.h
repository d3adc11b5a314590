/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ASYNC_H
#define GPUSHARE_SHIM_ASYNC_H
/*
 * A list of buffers that the program has freed in stream order (cuMemFreeAsync). An entry ends once
 * its stream has reached the free. Then mapped memory of the program is unmapped, and an attached
 * buffer is detached. A cuMemAlloc buffer of the program that others have attached becomes a
 * deferred free (shim_linger.h).
 *
 * The shim has no thread. The program's next allocation or free ends the entries that are due. An
 * allocation that fails for lack of memory waits for the entries, until a deadline.
 *
 * No stream of the shim waits for a stream of the program, either. Streams share hardware queues
 * (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default), and a waiting stream blocks the streams behind it in
 * its queue. If the awaited stream depends on one of these, that is a deadlock.
 *
 * Memory opened from an IPC handle stays mapped until the program's next cuMemFree: closing the
 * handle waits for all GPU work, as cuMemFree does.
 */
#include "shim_live.h"

/* Is there any entry? One atomic load. */
bool async_any(void);

/* Does any entry wait for its stream? One atomic load. */
bool async_waits(void);

/* End `entry` once `stream` has done all work that is queued in the stream now. If the result is
 * not CU_OK, nothing has changed. */
cu_result async_defer(const struct driver *driver, const struct live *entry, cu_stream stream);

/* End a few entries that are due. errno, context and capture stay unchanged. `waits`: may also wait
 * for the registry; true only in a program call that may concern a name. */
void async_sweep(bool waits);
/* Close the IPC handles of ended entries. Call it only in a program call that waits for the GPU
 * anyway. */
void async_close(void);

/* Wait until `until_ms` for the entries that wait for their streams. Return true if one
 * has ended. */
bool async_drain(int64_t until_ms);

/* Is there an entry of `pointer`? If so, the program has freed `pointer`. But a buffer that the
 * program attached more than once may still be attached there: call live_take() first. */
bool async_holds(uint64_t pointer);

/* As live_pooled(), for the entries that wait for their streams. */
uint64_t async_pooled(cu_mem_pool pool);

/* As live_list() and live_count(), for the attachments whose end the registry doesn't know. */
bool async_list(struct resync *resync);
void async_count(gpushare_Hold *out_hold);

/* `context` is about to end. async_take_of() takes its entries off the list. async_end() ends them
 * after the context has ended. async_return() puts them back if the context stays. */
struct pending;
struct pending *async_take_of(cu_context context);
void async_end(const struct driver *driver, cu_context context, struct pending *taken);
void async_return(struct pending *taken);

#endif
