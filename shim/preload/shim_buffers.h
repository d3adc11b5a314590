/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_BUFFERS_H
#define GPUSHARE_SHIM_BUFFERS_H
/* The program's driver calls that rules may concern. Each function takes the real driver call,
 * `real`. The program's result, errno, current context and order of work are as they would be
 * without the shim. No function holds a lock during a driver call. */
#include <errno.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_claim.h"
#include "shim_live.h"

#define BUFFERS_BLOCK ((size_t)2 << 20) /* the driver's unit of mapping (tests/gpu/FACTS.md) */
#define BUFFERS_AMPLE 8 /* round up only if 1/BUFFERS_AMPLE of the GPU's memory stays free */

/* shim_alloc.c. buffers_sweep() ends stream-ordered frees that are due. buffers_make_room(), for an
 * allocation that has failed, completes all frees that it can, and returns true if there were
 * any. */
void buffers_sweep(void);
bool buffers_make_room(void);
/* Makes `call`, an allocation, and returns its result. If memory is short, makes room and calls
 * once more. */
#define BUFFERS_TRY(call) \
	({ \
		int error_ = errno; \
		cu_result result_ = (call); \
\
		if (result_ == CU_OUT_OF_MEMORY && buffers_make_room()) { \
			errno = error_; \
			result_ = (call); \
		} \
		result_; \
	})

/* shim_alloc.c: synchronous allocations. buffers_rounded() returns `size` rounded up to whole
 * blocks, or `size` if that overflows. buffers_has_room() returns true if 1/BUFFERS_AMPLE of
 * the GPU's memory stays free after an allocation of the rounded size. If `size` is whole blocks
 * already, it returns true without looking. */
size_t buffers_rounded(size_t size);
bool buffers_has_room(const struct driver *driver, size_t size);
cu_result buffers_alloc(cu_cuMemAlloc_v2_call *real, const void *caller, cu_deviceptr *pointer,
			size_t size);
cu_result buffers_alloc_pitch(cu_cuMemAllocPitch_v2_call *real, const void *caller,
			      cu_deviceptr *pointer, size_t *pitch, size_t width, size_t height,
			      unsigned int element);
/* shim_managed.c */
cu_result buffers_alloc_managed(cu_cuMemAllocManaged_call *real, const void *caller,
				cu_deviceptr *pointer, size_t size, unsigned int flags);

/* shim_stream.c: memory in stream order */
struct buffers_stream {
	cu_cuMemAllocAsync_call *async; /* exactly one of `async` and `pooled` is set */
	cu_cuMemAllocFromPoolAsync_call *pooled;
	cu_mem_pool pool;
	cu_stream stream; /* as the program gave it */
	cu_stream meant;  /* CU_STREAM_PER_THREAD for stream 0 of a _ptsz call, else `stream` */
};
cu_result buffers_alloc_async(const struct buffers_stream *call, const void *caller,
			      cu_deviceptr *pointer, size_t size);
cu_result buffers_free_async(cu_cuMemFreeAsync_call *real, cu_deviceptr pointer, cu_stream stream,
			     cu_stream meant);

/* shim_free.c: cuMemFree. It withdraws the name before it frees the memory: the driver may hand the
 * address out again at once. */
cu_result buffers_free(cu_cuMemFree_v2_call *real, cu_deviceptr pointer);
/* Has the program freed `pointer`, by a free that is deferred or waits for its stream? Call it only
 * if there is no live entry of `pointer`. */
bool buffers_has_freed(cu_deviceptr pointer);
/* Wait for the GPU as cuMemFree does, and return the result that cuMemFree would return.
 * CU_OUT_OF_MEMORY: also if `context` can't be made current. */
cu_result buffers_stand_in(const struct driver *driver, cu_context context);

/* shim_context.c: the end of all allocations of a context */
cu_result buffers_context_destroy(cu_cuCtxDestroy_v2_call *real, cu_context context);
cu_result buffers_primary_release(cu_cuDevicePrimaryCtxRelease_v2_call *real, cu_device device);
cu_result buffers_primary_reset(cu_cuDevicePrimaryCtxReset_v2_call *real, cu_device device);

/* shim_vmm.c: memory by handle */
cu_result buffers_create(cu_cuMemCreate_call *real, const void *caller, cu_mem_handle *handle,
			 size_t size, const cu_mem_prop *prop, unsigned long long flags);
cu_result buffers_release(cu_cuMemRelease_call *real, cu_mem_handle handle);
cu_result buffers_retain(cu_cuMemRetainAllocationHandle_call *real, cu_mem_handle *handle,
			 void *pointer);
cu_result buffers_map(cu_cuMemMap_call *real, cu_deviceptr pointer, size_t size, size_t offset,
		      cu_mem_handle handle, unsigned long long flags);
cu_result buffers_unmap(cu_cuMemUnmap_call *real, cu_deviceptr pointer, size_t size);

/* shim_query.c: opening and closing IPC handles that the shim made */
cu_result buffers_open_handle(cu_cuIpcOpenMemHandle_v2_call *real, cu_deviceptr *pointer,
			      const cu_ipc_mem_handle *handle, unsigned int flags);
cu_result buffers_close_handle(cu_cuIpcCloseMemHandle_call *real, cu_deviceptr pointer);

/* shim_query.c: the program's queries about a pointer. buffers_range() and buffers_attribute()
 * correct the driver's answer in place. buffers_handle() returns true if it answers instead of the
 * driver. */
cu_deviceptr buffers_told(cu_deviceptr pointer); /* the pointer to ask the driver about */
/* Copy the live entry (shim_live.h) of the memory that holds `pointer`. errno stays unchanged. */
bool buffers_find_around(cu_deviceptr pointer, struct live *out_entry);
bool buffers_handle(cu_deviceptr pointer, cu_ipc_mem_handle *out_handle, cu_result *out_result);
void buffers_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size);
void buffers_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value);

#endif
