/* SPDX-License-Identifier: MIT */
#include "shim_own.h"

#include <stdio.h>

#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_pages.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"
#include "cuda/vmm.h"

/* Would any call of the program fail like this? The reasons: a stream is captured, the context has
 * a sticky error, or the driver is shut down. */
static bool is_for_all_calls(cu_result result)
{
	return result == CU_STREAM_CAPTURE_UNSUPPORTED || result == CU_DEINITIALIZED ||
	       (result >= CU_ILLEGAL_ADDRESS && result < CU_NOT_PERMITTED);
}

/*
 * Returns the error that cuMemAlloc or cuMemFree would return because of a stream capture or a
 * sticky error, else CU_OK. The calls that make mapped memory would not return that error.
 * cuEventQuery of an event that was never recorded has no other reason to fail. A capture that
 * forbids cuEventQuery forbids cuMemAlloc and cuMemFree too (cuThreadExchangeStreamCaptureMode;
 * asserted in contract_unsafe.c, and for cuMemFree in contract_capture.c).
 */
static cu_result ask_at_the_door(const struct driver *driver)
{
	cu_event event;
	cu_result result;

	result = driver->cuEventCreate(&event, CU_EVENT_NO_TIMING);
	if (result == CU_OK) {
		result = driver->cuEventQuery(event);
		driver->cuEventDestroy_v2(event);
	}
	return is_for_all_calls(result) ? result : CU_OK;
}

static bool fail(const struct driver *driver, cu_result result, const char *what, struct own *out)
{
	snprintf(out->why, sizeof(out->why), "%s failed with %s", what,
		 driver_error_name(driver, result));
	return false;
}

void own_leave(struct own *own)
{
	own->shareable = false;
	if (!own->why[0])
		snprintf(own->why, sizeof(own->why),
			 "sharing it takes whole blocks of 2 MiB, for which there is no room");
}

static cu_result make_mapped(const struct claim *claim, struct vmm_mapping *out_mapping)
{
	const char *call;
	cu_result result = vmm_make(claim->driver, claim->allocation.size, claim->allocation.device,
				    claim->match.unified, out_mapping, &call);

	if (result == CU_OUT_OF_MEMORY && buffers_make_room())
		result = vmm_make(claim->driver, claim->allocation.size, claim->allocation.device,
				  claim->match.unified, out_mapping, &call);
	return result;
}

static bool make(const struct claim *claim, cu_deviceptr *out_pointer, struct own *out)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	struct vmm_mapping mapping;
	cu_result result;

	if (claim->match.adopt && share_adopted(claim, out_pointer))
		return true;
	if (!claim->match.unified && !buffers_has_room(claim->driver, claim->allocation.size)) {
		own_leave(out);
		return false;
	}
	result = make_mapped(claim, &mapping);
	if (result != CU_OK)
		return fail(claim->driver, result, "making mapped memory", out);
	if (share_mapping(claim, &mapping)) {
		*out_pointer = mapping.pointer;
		return true;
	}
	vmm_unmap(claim->driver, &mapping);
	out->shareable = false;
	return false;
}

bool own_make(const struct claim *claim, cu_deviceptr *out_pointer, struct own *out)
{
	cu_result result;
	int error = errno;

	*out = (struct own){.shareable = !claim->match.flags && !claim->match.unified};
	if (!claim->match.vmm)
		return false;
	result = ask_at_the_door(claim->driver);
	errno = error;
	if (result != CU_OK)
		return fail(claim->driver, result, "a driver call", out);
	out->made = make(claim, out_pointer, out);
	return out->made;
}

bool own_settle(const struct claim *claim, const struct own *own, cu_deviceptr pointer)
{
	_quiet_ struct quiet quiet = quiet_enter();

	if (own->made)
		return true;
	if (own->why[0])
		state_log("\"%s\" is %s: %s", claim->match.name,
			  own->shareable ? "shared by an IPC handle, not as mapped memory"
					 : "not shared",
			  own->why);
	return !own->shareable || share_pointer(claim, pointer);
}

/* cuMemFree works without a current context; ask_at_the_door() needs one. */
static cu_result ask_to_free(const struct driver *driver, const struct live *entry)
{
	_quiet_ struct quiet quiet = quiet_enter();
	cu_context current = NULL, left;
	cu_result result;
	bool pushed;

	driver->cuCtxGetCurrent(&current);
	pushed = !current && entry->context && driver->cuCtxPushCurrent_v2(entry->context) == CU_OK;
	result = ask_at_the_door(driver);
	if (pushed)
		driver->cuCtxPopCurrent_v2(&left);
	return result;
}

void own_close(const struct driver *driver, const struct live *entry)
{
	cu_result result = attach_close(driver, entry);

	if (result != CU_OK)
		state_log(
		    "mapped memory of %llu bytes at 0x%llx is not completely freed: the driver "
		    "answered %s",
		    (unsigned long long)entry->mapping.size,
		    (unsigned long long)entry->mapping.pointer, driver_error_name(driver, result));
}

cu_result own_free(const struct driver *driver, struct live *entry)
{
	cu_result result = ask_to_free(driver, entry);

	if (result != CU_OK) {
		live_add(entry); /* not freed: put it back */
		return result;
	}
	pages_publish_freed(driver, entry);
	share_end(entry->name, entry->generation);
	attach_wait(driver, entry);
	own_close(driver, entry);
	return CU_OK;
}
