/* SPDX-License-Identifier: MIT */
#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_lookup.h"
#include "shim_own.h"
#include "shim_process.h"
#include "shim_share.h"

cu_result buffers_free(cu_cuMemFree_v2_call *real, cu_deviceptr pointer)
{
	const struct driver *driver = lookup_driver();
	struct live entry;
	cu_result result;

	if (!driver || !process_is_mine())
		return real(pointer);
	async_sweep();
	if (!live_take(pointer, &entry)) {
		if (async_holds(pointer))
			return CU_INVALID_VALUE;
		result = real(pointer);
	} else if (entry.kind == LIVE_OWN_VMM) {
		result = own_free(driver, &entry);
	} else if (entry.kind != LIVE_OWN) {
		result = attach_end(driver, &entry);
	} else {
		share_end(entry.name, entry.generation, false);
		result = real(pointer);
		if (result != CU_OK && result != CU_DEINITIALIZED)
			share_again(driver, &entry);
	}
	if (pointer && result == CU_OK && async_any())
		async_close();
	return result;
}
