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
#include "shim_pool.h"

atomic_bool hooks_stacked;

/* ARGS (a, b) expands to a, b: without the parentheses, the list can follow other arguments. */
#define ARGS(...) __VA_ARGS__

#define BODY(name, ...) \
	static inline cu_result body_##name( \
	    cu_##name##_call *real, __attribute__((unused)) const void *caller, __VA_ARGS__)

/* Bodies that only pass their arguments on. */
#define body_cuMemAlloc_v2 buffers_alloc
#define body_cuMemAllocPitch_v2 buffers_alloc_pitch
#define body_cuMemAllocManaged buffers_alloc_managed
#define body_cuMemCreate buffers_create
#define body_cuMemRelease(real, caller, ...) buffers_release(real, __VA_ARGS__)
#define body_cuMemRetainAllocationHandle(real, caller, ...) buffers_retain(real, __VA_ARGS__)
#define body_cuMemMap(real, caller, ...) buffers_map(real, __VA_ARGS__)
#define body_cuMemUnmap(real, caller, ...) buffers_unmap(real, __VA_ARGS__)
#define body_cuCtxDestroy(real, caller, ...) buffers_context_destroy(real, __VA_ARGS__)
#define body_cuCtxDestroy_v2 body_cuCtxDestroy
#define body_cuDevicePrimaryCtxRelease(real, caller, ...) buffers_primary_release(real, __VA_ARGS__)
#define body_cuDevicePrimaryCtxRelease_v2 body_cuDevicePrimaryCtxRelease
#define body_cuDevicePrimaryCtxReset(real, caller, ...) buffers_primary_reset(real, __VA_ARGS__)
#define body_cuDevicePrimaryCtxReset_v2 body_cuDevicePrimaryCtxReset

/* Advice on managed memory. Unified memory (host memory in place of managed memory) needs none:
 * return CU_OK. */
#define ADVICE(name, params, args) \
	BODY(name, ARGS params) \
	{ \
		return managed_is(pointer, size) ? CU_OK : real args; \
	}
SHIM_ADVICE(ADVICE)
#undef ADVICE

BODY(cuMemPoolGetAttribute, cu_mem_pool pool, cu_pool_attribute attribute, void *value)
{
	return pools_any() ? pools_get(real, pool, attribute, value) : real(pool, attribute, value);
}

BODY(cuMemPoolSetAttribute, cu_mem_pool pool, cu_pool_attribute attribute, void *value)
{
	return pools_any() ? pools_set(real, pool, attribute, value) : real(pool, attribute, value);
}

BODY(cuMemPoolTrimTo, cu_mem_pool pool, size_t keep)
{
	return pools_any() ? pools_trim(real, pool, keep) : real(pool, keep);
}

BODY(cuMemPoolDestroy, cu_mem_pool pool)
{
	return pools_any() ? pools_destroy(real, pool) : real(pool);
}

/* Return true if `pointer` may be in the live table, or if any stream-ordered or deferred free is
 * pending. */
static inline bool free_concerns(cu_deviceptr pointer)
{
	return live_maybe(pointer) || async_any() || deferred_any(&linger_list);
}

BODY(cuMemFree_v2, cu_deviceptr pointer)
{
	if (!free_concerns(pointer))
		return real(pointer);
	return buffers_free(real, pointer);
}

/* Calls in stream order, with and without _ptsz. `target`: the stream that `stream` stands for. */
#define IN_STREAM_ORDER(ptsz, target) \
	BODY(cuMemAllocAsync##ptsz, cu_deviceptr *pointer, size_t size, cu_stream stream) \
	{ \
		const struct buffers_stream call = { \
		    .async = real, .stream = stream, .meant = target}; \
\
		return buffers_alloc_async(&call, caller, pointer, size); \
	} \
	BODY(cuMemAllocFromPoolAsync##ptsz, cu_deviceptr *pointer, size_t size, cu_mem_pool pool, \
	     cu_stream stream) \
	{ \
		const struct buffers_stream call = { \
		    .pooled = real, .pool = pool, .stream = stream, .meant = target}; \
\
		return buffers_alloc_async(&call, caller, pointer, size); \
	} \
	BODY(cuMemFreeAsync##ptsz, cu_deviceptr pointer, cu_stream stream) \
	{ \
		return free_concerns(pointer) ? buffers_free_async(real, pointer, stream, target) \
					      : real(pointer, stream); \
	}
IN_STREAM_ORDER(, stream)
IN_STREAM_ORDER(_ptsz, stream ? stream : (cu_stream)2) /* CU_STREAM_PER_THREAD */

BODY(cuIpcGetMemHandle, cu_ipc_mem_handle *handle, cu_deviceptr pointer)
{
	cu_result result;

	if (handle && live_any() && buffers_handle(pointer, handle, &result))
		return result;
	return real(handle, buffers_told(pointer));
}

BODY(cuIpcOpenMemHandle_v2, cu_deviceptr *pointer, cu_ipc_mem_handle handle, unsigned int flags)
{
	if (!ipc_is_ours(&handle))
		return real(pointer, handle, flags);
	return buffers_open_handle(real, pointer, &handle, flags);
}
#define body_cuIpcOpenMemHandle body_cuIpcOpenMemHandle_v2

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
	if (found && !lookup_meet(found) && state_is_active())
		atomic_store_explicit(&hooks_stacked, true, memory_order_relaxed);
	return found;
}

bool hooks_is_nested(const void *caller)
{
	return site_here.guarded || atomic_load_explicit(&hooks_stacked, memory_order_relaxed) ||
	       lookup_is_drivers(caller);
}

/* A hooked call inside a hooked call passes through, because one allocation must count once. Such a
 * call may come from another interposer behind the shim: the hooked dlsym gave that interposer a
 * hook as the next function to call. */
#define RUN(name, real, args) \
	HOOKS_RUN(real, args, false, \
		  if (atomic_load_explicit(&hooks_stacked, memory_order_relaxed)) site_guard(); \
		  result = body_##name(real, __builtin_return_address(0), ARGS args))

#define H(name, params, args) HOOKS_ENTRIES(name, params, args, RUN)
SHIM_HOOKS(H)
#undef H
