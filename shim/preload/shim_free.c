/* SPDX-License-Identifier: MIT */
#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_linger.h"
#include "shim_lookup.h"
#include "shim_own.h"
#include "shim_pages.h"
#include "shim_process.h"
#include "cuda/shim_quiet.h"
#include "shim_share.h"
#include "shim_site.h"

cu_result buffers_stand_in(const struct driver *driver, cu_context context)
{
	_quiet_ struct quiet quiet = quiet_enter();
	cu_result result;
	cu_context left;

	if (driver->cuCtxPushCurrent_v2(context) != CU_OK)
		return CU_OUT_OF_MEMORY;
	result = deferred_stand_in(driver);
	driver->cuCtxPopCurrent_v2(&left);
	return result;
}

static cu_result free_own(cu_cuMemFree_v2_call *real, const struct driver *driver,
			  struct live *entry)
{
	bool attached;
	cu_result result;

	pages_publish_freed(driver, entry);
	attached = linger_withdraw(entry);
	if (attached && buffers_stand_in(driver, entry->context) == CU_OK && linger_keep(entry))
		return CU_OK;
	if (attached)
		share_end(entry->name, entry->generation);
	result = real(entry->pointer); /* the program gets the driver's answer */
	if (result != CU_OK && result != CU_DEINITIALIZED)
		share_again(driver, entry);
	return result;
}

bool buffers_has_freed(cu_deviceptr pointer)
{
	return async_holds(pointer) || deferred_holds(&linger_list, pointer, 1);
}

cu_result buffers_free(cu_cuMemFree_v2_call *real, cu_deviceptr pointer)
{
	const struct driver *driver = lookup_driver();
	struct live entry;
	cu_result result;
	bool ours;

	if (!driver || !process_is_mine())
		return real(pointer);
	site_guard();
	async_sweep(false);
	share_settle(pointer, false);
	ours = live_take(pointer, false, &entry);
	if (!ours) {
		if (buffers_has_freed(pointer))
			return CU_INVALID_VALUE;
		result = real(pointer);
	} else if (entry.kind == LIVE_OWN_VMM) {
		result = own_free(driver, &entry);
	} else if (entry.kind != LIVE_OWN) {
		result = attach_end(driver, &entry);
	} else {
		result = free_own(real, driver, &entry);
	}
	if (!pointer || result != CU_OK)
		return result; /* the driver has not waited for the GPU */
	if (async_any())
		async_close();
	linger_sweep(ours);
	return result;
}
