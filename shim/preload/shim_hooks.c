/* SPDX-License-Identifier: MIT */
/* The bodies of the hooks. Each gets the real call and the caller's address. The buffers_ files
 * handle the calls that rules may concern. */
#include "shim_hooks.h"

#include "shim_async.h"
#include "shim_buffers.h"
#include "base/elf.h"
#include "shim_ipc.h"
#include "shim_linger.h"
#include "shim_live.h"
#include "shim_managed.h"

/* CU_STREAM_PER_THREAD: what stream 0 means in the _ptsz calls */
#define PER_THREAD(stream) ((stream) ? (stream) : (cu_stream)2)

atomic_bool hooks_stacked;

/* ARGS (a, b) expands to a, b: without the parentheses, the list can follow other arguments. */
#define ARGS(...) __VA_ARGS__

#define BODY(name, ...) \
	static inline cu_result body_##name( \
	    cu_##name##_call *real, __attribute__((unused)) const void *caller, __VA_ARGS__)

BODY(cuMemAlloc_v2, cu_deviceptr *pointer, size_t size)
{
	return buffers_alloc(real, caller, pointer, size);
}

BODY(cuMemAllocPitch_v2, cu_deviceptr *pointer, size_t *pitch, size_t width, size_t height,
     unsigned int element)
{
	return buffers_alloc_pitch(real, caller, pointer, pitch, width, height, element);
}

BODY(cuMemAllocManaged, cu_deviceptr *pointer, size_t size, unsigned int flags)
{
	return buffers_alloc_managed(real, caller, pointer, size, flags);
}

/* Advice on managed memory. Unified memory (host memory in its place) needs none: return CU_OK. */
#define ADVICE(name, params, args) \
	BODY(name, ARGS params) \
	{ \
		return managed_is(pointer, size) ? CU_OK : real args; \
	}
SHIM_ADVICE(ADVICE)
#undef ADVICE

static inline cu_result alloc_async(cu_cuMemAllocAsync_call *real, const void *caller,
				    cu_deviceptr *pointer, size_t size, cu_stream stream,
				    cu_stream meant)
{
	const struct buffers_stream call = {.async = real, .stream = stream, .meant = meant};

	return buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, caller, pointer, size);
}

BODY(cuMemAllocAsync, cu_deviceptr *pointer, size_t size, cu_stream stream)
{
	return alloc_async(real, caller, pointer, size, stream, stream);
}

BODY(cuMemAllocAsync_ptsz, cu_deviceptr *pointer, size_t size, cu_stream stream)
{
	return alloc_async(real, caller, pointer, size, stream, PER_THREAD(stream));
}

static inline cu_result alloc_pool(cu_cuMemAllocFromPoolAsync_call *real, const void *caller,
				   cu_deviceptr *pointer, size_t size, cu_mem_pool pool,
				   cu_stream stream, cu_stream meant)
{
	const struct buffers_stream call = {
	    .pooled = real, .pool = pool, .stream = stream, .meant = meant};

	return buffers_alloc_async(&call, RULES_API_cuMemAllocFromPoolAsync, caller, pointer, size);
}

BODY(cuMemAllocFromPoolAsync, cu_deviceptr *pointer, size_t size, cu_mem_pool pool,
     cu_stream stream)
{
	return alloc_pool(real, caller, pointer, size, pool, stream, stream);
}

BODY(cuMemAllocFromPoolAsync_ptsz, cu_deviceptr *pointer, size_t size, cu_mem_pool pool,
     cu_stream stream)
{
	return alloc_pool(real, caller, pointer, size, pool, stream, PER_THREAD(stream));
}

/* Return true if the shim may have `pointer` in its table of live memory, or if any other free is
 * pending. */
static inline bool free_concerns(cu_deviceptr pointer)
{
	return live_maybe(pointer) || async_any() || linger_any();
}

BODY(cuMemFree_v2, cu_deviceptr pointer)
{
	if (!free_concerns(pointer))
		return real(pointer);
	return buffers_free(real, pointer);
}

static inline cu_result free_async(cu_cuMemFreeAsync_call *real, cu_deviceptr pointer,
				   cu_stream stream, cu_stream meant)
{
	if (!free_concerns(pointer))
		return real(pointer, stream);
	return buffers_free_async(real, pointer, stream, meant);
}

BODY(cuMemFreeAsync, cu_deviceptr pointer, cu_stream stream)
{
	return free_async(real, pointer, stream, stream);
}

BODY(cuMemFreeAsync_ptsz, cu_deviceptr pointer, cu_stream stream)
{
	return free_async(real, pointer, stream, PER_THREAD(stream));
}

BODY(cuMemCreate, cu_mem_handle *handle, size_t size, const cu_mem_prop *prop,
     unsigned long long flags)
{
	return buffers_create(real, caller, handle, size, prop, flags);
}

BODY(cuMemRelease, cu_mem_handle handle)
{
	return buffers_release(real, handle);
}

BODY(cuMemRetainAllocationHandle, cu_mem_handle *handle, void *pointer)
{
	return buffers_retain(real, handle, pointer);
}

BODY(cuMemMap, cu_deviceptr pointer, size_t size, size_t offset, cu_mem_handle handle,
     unsigned long long flags)
{
	return buffers_map(real, pointer, size, offset, handle, flags);
}

BODY(cuMemUnmap, cu_deviceptr pointer, size_t size)
{
	return buffers_unmap(real, pointer, size);
}

BODY(cuIpcGetMemHandle, cu_ipc_mem_handle *handle, cu_deviceptr pointer)
{
	cu_result result;

	if (handle && live_any() && buffers_handle(pointer, handle, &result))
		return result;
	return real(handle, buffers_told(pointer));
}

static inline cu_result open_handle(cu_cuIpcOpenMemHandle_v2_call *real, cu_deviceptr *pointer,
				    const cu_ipc_mem_handle *handle, unsigned int flags)
{
	if (!ipc_is_ours(handle))
		return real(pointer, *handle, flags);
	return buffers_open_handle(real, pointer, handle, flags);
}

BODY(cuIpcOpenMemHandle, cu_deviceptr *pointer, cu_ipc_mem_handle handle, unsigned int flags)
{
	return open_handle(real, pointer, &handle, flags);
}

BODY(cuIpcOpenMemHandle_v2, cu_deviceptr *pointer, cu_ipc_mem_handle handle, unsigned int flags)
{
	return open_handle(real, pointer, &handle, flags);
}

BODY(cuIpcCloseMemHandle, cu_deviceptr pointer)
{
	if (!live_maybe(pointer))
		return real(pointer);
	return buffers_close_handle(real, pointer);
}

/* The driver doesn't know unified memory as managed memory, and returns one of these results for
 * it. The shim then answers instead. Any other error goes to the program. */
static inline bool can_answer(cu_result result)
{
	return live_any_managed() &&
	       (result == CU_OK || result == CU_INVALID_VALUE || result == CU_NOT_FOUND);
}

BODY(cuMemGetAddressRange_v2, cu_deviceptr *base, size_t *size, cu_deviceptr pointer)
{
	cu_result result = real(base, size, buffers_told(pointer));

	if (can_answer(result) && managed_range(pointer, base, size))
		return CU_OK;
	if (result == CU_OK && live_any())
		buffers_range(pointer, base, size);
	return result;
}

BODY(cuPointerGetAttribute, void *value, cu_pointer_attribute attribute, cu_deviceptr pointer)
{
	cu_result result = real(value, attribute, buffers_told(pointer));

	if (can_answer(result) && managed_attribute(pointer, attribute, value))
		return CU_OK;
	if (result == CU_OK && live_any())
		buffers_attribute(pointer, attribute, value);
	return result;
}

BODY(cuPointerGetAttributes, unsigned int count, cu_pointer_attribute *attributes, void **values,
     cu_deviceptr pointer)
{
	cu_result result = real(count, attributes, values, buffers_told(pointer));

	if (result == CU_OK && live_any())
		for (unsigned int i = 0; i < count; i++)
			if (!managed_attribute(pointer, attributes[i], values[i]))
				buffers_attribute(pointer, attributes[i], values[i]);
	return result;
}

/* Calls that end a context or all memory of a device. Both versions of a call have the same
 * parameters. */
#define ENDING(name, type, end) \
	BODY(name, type what) \
	{ \
		return end(real, what); \
	}
ENDING(cuCtxDestroy, cu_context, buffers_context_destroy)
ENDING(cuCtxDestroy_v2, cu_context, buffers_context_destroy)
ENDING(cuDevicePrimaryCtxRelease, cu_device, buffers_primary_release)
ENDING(cuDevicePrimaryCtxRelease_v2, cu_device, buffers_primary_release)
ENDING(cuDevicePrimaryCtxReset, cu_device, buffers_primary_reset)
ENDING(cuDevicePrimaryCtxReset_v2, cu_device, buffers_primary_reset)
#undef ENDING

static inline cu_result replaced(cu_result result, void **pointer)
{
	if (result == CU_OK && pointer && lookup_driver())
		*pointer = lookup_replace(*pointer);
	return result;
}

BODY(cuGetProcAddress, const char *symbol, void **pointer, int version, cu_uint64 flags)
{
	return replaced(real(symbol, pointer, version, flags), pointer);
}

BODY(cuGetProcAddress_v2, const char *symbol, void **pointer, int version, cu_uint64 flags,
     cu_proc_status *status)
{
	return replaced(real(symbol, pointer, version, flags, status), pointer);
}

void *hooks_find_next(const void *caller, const char *symbol)
{
	void *found;

	(void)caller;
	found = elf_find_after((const void *)hooks_find_next, symbol);
	if (found && !lookup_meet(found))
		atomic_store_explicit(&hooks_stacked, true, memory_order_relaxed);
	return found;
}

bool hooks_is_nested(const void *caller)
{
	return site_here.guarded || atomic_load_explicit(&hooks_stacked, memory_order_relaxed) ||
	       lookup_is_drivers(caller);
}

void hooks_guard_stacked(void)
{
	if (state_is_active())
		site_guard();
}

/* A hooked call inside a hooked call passes through, because one allocation must count once. Such a
 * call may come from another interposer behind the shim: the hooked dlsym gave that interposer a
 * hook as the next function to call. */
#define RUN(name, real, args) \
	HOOKS_RUN(real, args, false, \
		  if (atomic_load_explicit(&hooks_stacked, memory_order_relaxed)) \
		      hooks_guard_stacked(); \
		  result = body_##name(real, __builtin_return_address(0), ARGS args))

#define H(name, params, args) HOOKS_ENTRIES(name, params, args, RUN)
SHIM_HOOKS(H)
#undef H
