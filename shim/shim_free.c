/* SPDX-License-Identifier: MIT */
#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_lookup.h"
#include "shim_own.h"
#include "shim_process.h"
#include "shim_scope.h"
#include "shim_share.h"

/* cuMemFree waits for the work that may still use the memory, and so does cuIpcCloseMemHandle;
 * cuMemUnmap does not (measured). */
static cu_result detach(const struct driver *driver, const struct live *entry)
{
	_scope_ struct scope scope = scope_enter(driver);
	cu_result result;

	if (entry->kind == LIVE_VMM && entry->context)
		scope_push(&scope, entry->context);
	if (entry->kind == LIVE_VMM && driver->cuCtxSynchronize)
		driver->cuCtxSynchronize();
	result = attach_close(driver, entry);
	share_end(entry->name, entry->generation, true);
	return result;
}

cu_result buffers_free(cu_cuMemFree_v2_call *real, cu_deviceptr pointer)
{
	const struct driver *driver = lookup_driver();
	struct live entry;
	cu_result result;

	if (!driver || !process_is_mine())
		return real(pointer);
	if (async_any())
		async_sweep();
	if (!live_take(pointer, &entry))
		return async_holds(pointer) ? CU_INVALID_VALUE : real(pointer);
	if (entry.kind == LIVE_OWN_VMM)
		return own_free(driver, &entry);
	if (entry.kind != LIVE_OWN)
		return detach(driver, &entry);
	share_end(entry.name, entry.generation, false);
	result = real(pointer);
	if (result != CU_OK && result != CU_DEINITIALIZED)
		share_again(driver, &entry);
	return result;
}
