/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_BUFFERS_H
#define GPUSHARE_SHIM_BUFFERS_H
/*
 * What happens around a call of the program when rules may concern it. Each function takes the call
 * to go on to and answers as the driver would have without us: result, errno, current context,
 * order. None holds a lock over a driver call.
 */
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_claim.h"
#include "shim_live.h"

#define BUFFERS_BLOCK ((size_t)2 << 20) /* what the driver maps at once (FACTS.md) */
#define BUFFERS_AMPLE 8 /* nothing is rounded up where less than this part of the GPU stays free */

/* shim_alloc.c, too: give back what is due of what was freed before its time; and, for an allocation
 * that fails, all of it that can be: true if there was any. */
void buffers_sweep(void);
bool buffers_make_room(void);

/* shim_alloc.c: memory at once. buffers_rounded() is whole blocks, or `size` where that overflows.
 * buffers_has_room(): is there ample memory for those blocks, or is `size` whole blocks? */
size_t buffers_rounded(size_t size);
bool buffers_has_room(const struct driver *driver, size_t size);
void buffers_give_back(const struct driver *driver, cu_deviceptr pointer);
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
	cu_cuMemAllocAsync_call *async; /* one of the two */
	cu_cuMemAllocFromPoolAsync_call *pooled;
	cu_mem_pool pool;
	cu_stream stream; /* as given */
	cu_stream meant;  /* with the default stream spelled out */
};
cu_result buffers_alloc_async(const struct buffers_stream *call, enum rules_api api,
			      const void *caller, cu_deviceptr *pointer, size_t size);
cu_result buffers_free_async(cu_cuMemFreeAsync_call *real, cu_deviceptr pointer, cu_stream stream,
			     cu_stream meant);

/* shim_free.c: the end of an allocation. The name goes first: the address may be handed out again
 * at once. */
cu_result buffers_free(cu_cuMemFree_v2_call *real, cu_deviceptr pointer);
/* Has the program freed it, while it is there still for the driver? To be asked where it is not live. */
bool buffers_has_freed(const struct driver *driver, cu_deviceptr pointer);
/* Wait as it would, and answer so; CU_OUT_OF_MEMORY, too, where the context can't be asked. */
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

/* shim_query.c, too: handles of ours */
cu_result buffers_open_handle(cu_cuIpcOpenMemHandle_v2_call *real, cu_deviceptr *pointer,
			      const cu_ipc_mem_handle *handle, unsigned int flags);
cu_result buffers_close_handle(cu_cuIpcCloseMemHandle_call *real, cu_deviceptr pointer);

/* shim_query.c: what a program may ask about a pointer. Answers are corrected in place; the second
 * says whether it answers in the driver's place. */
cu_deviceptr buffers_told(cu_deviceptr pointer); /* the driver is to be asked of; see there */
/* A copy of the entry whose memory `pointer` lies in. errno stays. */
bool buffers_find_around(cu_deviceptr pointer, struct live *out_entry);
bool buffers_handle(cu_deviceptr pointer, cu_ipc_mem_handle *out_handle, cu_result *out_result);
void buffers_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size);
void buffers_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value);

#endif
