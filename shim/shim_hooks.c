/* SPDX-License-Identifier: MIT */
/* The replaced calls: the real one first, with the program's own arguments. */
#include "shim_hooks.h"

#include <stdatomic.h>

#include "shim_buffers.h"
#include "shim_elf.h"
#include "shim_live.h"
#include "shim_lookup.h"
#include "shim_state.h"

static cu_result body_cuMemAlloc_v2(cu_cuMemAlloc_v2_call *real, cu_deviceptr *pointer, size_t size)
{
	cu_result result;

	if (state_wants(RULES_ATTACH) && buffers_attach(lookup_driver(), size, pointer, &result))
		return result;
	result = real(pointer, size);
	if (result == CU_OK && state_wants(RULES_NAME))
		buffers_made(lookup_driver(), *pointer, size);
	return result;
}

static cu_result body_cuMemAllocPitch_v2(cu_cuMemAllocPitch_v2_call *real, cu_deviceptr *pointer,
					 size_t *pitch, size_t width, size_t height,
					 unsigned int element)
{
	cu_result result = real(pointer, pitch, width, height, element);

	if (result == CU_OK && state_wants(RULES_NAME))
		buffers_made(lookup_driver(), *pointer, *pitch * height);
	return result;
}

static cu_result body_cuMemFree_v2(cu_cuMemFree_v2_call *real, cu_deviceptr pointer)
{
	cu_result result;

	if (live_any() && buffers_gone(lookup_driver(), pointer, &result))
		return result;
	return real(pointer);
}

static cu_result body_cuGetProcAddress(cu_cuGetProcAddress_call *real, const char *symbol,
				       void **pointer, int version, cu_uint64 flags)
{
	cu_result result = real(symbol, pointer, version, flags);

	if (result == CU_OK && pointer && lookup_driver())
		*pointer = lookup_replace(*pointer);
	return result;
}

static cu_result body_cuGetProcAddress_v2(cu_cuGetProcAddress_v2_call *real, const char *symbol,
					  void **pointer, int version, cu_uint64 flags,
					  cu_proc_status *status)
{
	cu_result result = real(symbol, pointer, version, flags, status);

	if (result == CU_OK && pointer && lookup_driver())
		*pointer = lookup_replace(*pointer);
	return result;
}

/* What the exported `name` goes on to: the next definition behind ours, found once. */
#define NEXT(name) \
	static cu_##name##_call *next_##name(void) \
	{ \
		static _Atomic(cu_##name##_call *) known; \
		cu_##name##_call *found = atomic_load_explicit(&known, memory_order_acquire); \
\
		if (!found) { \
			found = (cu_##name##_call *)elf_find_after(&known, #name); \
			atomic_store_explicit(&known, found, memory_order_release); \
		} \
		return found; \
	}

/* (a, b) behind a first argument: a, b */
#define ARGS(...) __VA_ARGS__

#define H(name, params, args) \
	NEXT(name) \
	SHIM_EXPORT cu_##name##_call name; \
	cu_result name params \
	{ \
		cu_##name##_call *real = next_##name(); \
\
		return real ? body_##name(real, ARGS args) : CU_NOT_INITIALIZED; \
	} \
	cu_result hook_##name params \
	{ \
		return body_##name(lookup_driver()->name, ARGS args); \
	}
SHIM_HOOKS(H)
#undef H
