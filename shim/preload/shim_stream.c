/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered allocations. CUDA makes no IPC handle for them, so a named one is mapped memory
 * instead. Mapped memory is usable at once, which is no later than the program expects. It is
 * freed, and an attached buffer is detached, in stream order.
 * After an allocation, the program may grant other GPUs access to its pool, which then includes
 * that allocation. So all GPUs that can reach this one have access to the mapped memory.
 */
#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_linger.h"
#include "shim_lookup.h"
#include "shim_own.h"
#include "shim_pool.h"
#include "shim_process.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"
#include "shim_site.h"

static inline cu_result go_on(const struct buffers_stream *call, cu_deviceptr *pointer, size_t size)
{
	return call->pooled ? call->pooled(pointer, size, call->pool, call->stream)
			    : call->async(pointer, size, call->stream);
}

/* Returns the driver's result; on a failure *out_captures is false. */
static cu_result ask_capturing(const struct driver *driver, cu_stream stream, bool *out_captures)
{
	cu_capture_status status = (cu_capture_status)CU_CAPTURE_NONE;
	cu_result result = driver->cuStreamIsCapturing(stream, &status);

	*out_captures = result == CU_OK && (int)status != CU_CAPTURE_NONE;
	return result;
}

/* Does the stream belong to another context, or is its context unknown? Memory allocated in that
 * stream may be another device's, but the shim gives memory of the current device only. */
static bool is_elsewhere(const struct driver *driver, cu_stream stream)
{
	cu_context its = NULL, current = NULL;

	return driver->cuStreamGetCtx(stream, &its) != CU_OK ||
	       driver->cuCtxGetCurrent(&current) != CU_OK || its != current;
}

/* NULL: the driver can't say. */
static cu_mem_pool pool_of(const struct claim *claim, const struct buffers_stream *call)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	const struct driver *driver = claim->driver;
	cu_mem_pool pool = NULL;

	if (call->pooled)
		return call->pool;
	return driver->cuDeviceGetMemPool(&pool, claim->allocation.device) == CU_OK ? pool : NULL;
}

static bool is_default(const struct claim *claim, cu_mem_pool pool)
{
	const struct driver *driver = claim->driver;
	cu_mem_pool standard = NULL;

	return driver->cuDeviceGetDefaultMemPool(&standard, claim->allocation.device) == CU_OK &&
	       standard == pool;
}

/*
 * May the pool's memory be replaced? Not if the pool is another device's or the host's, which one
 * small allocation shows. Not if the pool is exportable: the program may export its memory by
 * itself (cuMemPoolExportPointer).
 */
static bool pool_is_ours(const struct claim *claim, const struct buffers_stream *call,
			 const char **out_why)
{
	const struct driver *driver = claim->driver;
	cu_mem_pool pool = claim->pool;
	uint64_t travels = 0;
	unsigned int type = 0;
	cu_deviceptr probe;
	int device = -1;

	if ((!pool && !call->pooled) || is_default(claim, pool))
		return true;
	if (go_on(call, &probe, 1))
		return false;
	if (driver->cuPointerGetAttribute(&type, CU_ATTRIBUTE_MEMORY_TYPE, probe) != CU_OK ||
	    driver->cuPointerGetAttribute(&device, CU_ATTRIBUTE_DEVICE_ORDINAL, probe) != CU_OK)
		device = -1;
	if (driver->cuPointerGetAttribute(&travels, CU_ATTRIBUTE_HANDLE_TYPES, probe) != CU_OK)
		travels = 0;
	driver->cuMemFreeAsync(probe, call->meant);
	if (travels)
		*out_why = "its pool can be exported, which other memory can't be";
	return type == CU_MEMORY_DEVICE && device == claim->allocation.device && !travels;
}

/* *out_why: the reason to log if false; NULL: none. */
static bool is_ours_to_replace(const struct claim *claim, const struct buffers_stream *call,
			       const char **out_why)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	bool captures;

	*out_why = NULL;
	/* during a capture an allocation makes a graph node, not memory */
	return ask_capturing(claim->driver, call->meant, &captures) == CU_OK && !captures &&
	       !is_elsewhere(claim->driver, call->meant) && pool_is_ours(claim, call, out_why);
}

static cu_result make_named(struct claim *claim, const struct buffers_stream *call,
			    cu_deviceptr *pointer, size_t size)
{
	cu_result result = CU_OK;
	struct own own;

	claim->match.vmm = true;
	if (!own_make(claim, pointer, &own)) {
		own.shareable = false;
		result = BUFFERS_TRY(go_on(call, pointer, size));
	}
	if (result == CU_OK)
		own_settle(claim, &own, *pointer);
	return result;
}

/* Return true if a rule of that kind takes the allocation. If the memory can't be replaced, the
 * rules count the allocation, but none takes it. */
static bool take(struct claim *claim, enum rules_kind kind, const struct buffers_stream *call)
{
	const char *why;

	if (!claim_take(claim, kind))
		return false;
	if (is_ours_to_replace(claim, call, &why))
		return true;
	if (why && kind == RULES_NAME)
		state_log("\"%s\" is not shared: %s", claim->match.name, why);
	claim_leave(claim, kind);
	return false;
}

cu_result buffers_alloc_async(const struct buffers_stream *call, const void *caller,
			      cu_deviceptr *pointer, size_t size)
{
	const enum rules_api api =
	    call->pooled ? RULES_API_cuMemAllocFromPoolAsync : RULES_API_cuMemAllocAsync;
	struct claim claim;
	cu_result result;

	buffers_sweep();
	if (!pointer || !size || !claim_open(&claim, api, size, CLAIM_CURRENT_DEVICE, caller))
		return BUFFERS_TRY(go_on(call, pointer, size));
	claim.pool = pool_of(&claim, call);
	if (take(&claim, RULES_ATTACH, call) && attach_buffer(&claim, pointer, &result)) {
		pools_grow(claim.pool);
		return result;
	}
	if (take(&claim, RULES_NAME, call)) {
		result = make_named(&claim, call, pointer, size);
		pools_grow(claim.pool);
	} else {
		result = BUFFERS_TRY(go_on(call, pointer, size));
	}
	if (result != CU_OK)
		claim_fail(&claim);
	return result;
}

/* Called if defer() has failed for any reason: waits for the stream and then ends `entry`. If
 * `stream` is not valid, the wait returns the error. */
static cu_result close_now(const struct driver *driver, const struct live *entry, cu_stream stream)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_result result = driver->cuStreamSynchronize(stream);

	if (result == CU_OK && entry->kind == LIVE_OWN_VMM)
		own_close(driver, entry);
	else if (result == CU_OK)
		result = attach_close(driver, entry);
	if (result == CU_OK)
		share_left(entry);
	return result;
}

/* End `entry` once the stream has reached this point: at once if the stream is idle. */
static cu_result defer(const struct driver *driver, const struct live *entry, cu_stream stream)
{
	int error = errno;
	cu_result result = async_defer(driver, entry, stream);

	if (result == CU_OK)
		async_sweep(true);
	errno = error;
	return result;
}

static cu_result close_in_order(const struct driver *driver, struct live *entry, cu_stream stream)
{
	cu_result result = defer(driver, entry, stream);

	if (result != CU_OK)
		result = close_now(driver, entry, stream);
	if (result != CU_OK)
		live_add(entry); /* not freed: put it back */
	return result;
}

/* cuMemFreeAsync takes cuMemAlloc memory too, in stream order (CUDA C++ Programming Guide, "Stream
 * Ordered Memory Allocator"; measured). */
static cu_result free_plain_in_order(cu_cuMemFreeAsync_call *real, const struct driver *driver,
				     struct live *entry, cu_stream stream, cu_stream meant)
{
	bool attached = linger_withdraw(entry);
	cu_result result;

	if (attached && defer(driver, entry, meant) == CU_OK)
		return CU_OK;
	if (attached)
		share_end(entry->name, entry->generation);
	result = real(entry->pointer, stream);
	if (result != CU_OK)
		share_again(driver, entry);
	return result;
}

/* Withdraw the name at once, free the memory in stream order. */
static cu_result free_mapped_in_order(const struct driver *driver, struct live *entry,
				      cu_stream stream)
{
	struct live unnamed = *entry;
	cu_result result;

	unnamed.name[0] = '\0';
	share_end(entry->name, entry->generation);
	result = close_in_order(driver, &unnamed, stream);
	if (result != CU_OK)
		share_again(driver, entry);
	return result;
}

cu_result buffers_free_async(cu_cuMemFreeAsync_call *real, cu_deviceptr pointer, cu_stream stream,
			     cu_stream meant)
{
	const struct driver *driver = lookup_driver();
	cu_result asked = CU_OK;
	bool known, captures = false;
	struct live entry;

	if (!driver || !process_is_mine())
		return real(pointer, stream);
	site_guard();
	buffers_sweep();
	if (live_find_managed(pointer, 1, &entry))
		return CU_NOT_SUPPORTED; /* as for managed memory (contract_free.c) */
	known = live_maybe(pointer);
	if (known)
		asked = ask_capturing(driver, meant, &captures);
	/* The driver refuses to free its own memory in a stream that is being captured. Our mapped
	 * memory, which the driver can't free, is refused here. If the capture state is unknown,
	 * the driver decides about its own memory (LIVE_OWN). */
	if (asked != CU_OK || captures) {
		known = live_find(pointer, pointer, &entry);
		if (known && entry.kind == LIVE_OWN_VMM)
			return captures ? CU_INVALID_VALUE : asked;
		known = known && !captures && entry.kind == LIVE_OWN;
	}
	if (known)
		share_settle(pointer, false);
	if (!known || !live_take(pointer, false, &entry))
		return buffers_has_freed(pointer) ? CU_INVALID_VALUE : real(pointer, stream);
	switch (entry.kind) {
	case LIVE_OWN:
		return free_plain_in_order(real, driver, &entry, stream, meant);
	case LIVE_OWN_VMM:
		return free_mapped_in_order(driver, &entry, meant);
	default:
		return close_in_order(driver, &entry, meant);
	}
}
