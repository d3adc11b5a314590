/* SPDX-License-Identifier: MIT */
/* GPUSHARE_NAME: an allocation that a rule takes is entered in the registry. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim_buffers.h"
#include "shim_link.h"
#include "shim_live.h"
#include "shim_state.h"

static const char *describe(const struct driver *driver, cu_deviceptr pointer, size_t size,
			    record *what, uint8_t handle[GPUSHARE_HANDLE_SIZE], cu_result *out_result)
{
	cu_ipc_mem_handle ipc;
	cu_deviceptr base = 0;
	size_t base_size = 0;
	cu_device device;
	cu_uuid uuid;

	*out_result = driver->cuCtxGetDevice(&device);
	if (*out_result != CU_OK)
		return "cuCtxGetDevice";
	*out_result = driver->cuDeviceGetUuid_v2(&uuid, device);
	if (*out_result != CU_OK)
		return "cuDeviceGetUuid";
	*out_result = driver->cuMemGetAddressRange_v2(&base, &base_size, pointer);
	if (*out_result != CU_OK)
		return "cuMemGetAddressRange";
	*out_result = driver->cuIpcGetMemHandle(&ipc, pointer);
	if (*out_result != CU_OK)
		return "cuIpcGetMemHandle";
	memcpy(handle, ipc.reserved, GPUSHARE_HANDLE_SIZE);
	memcpy(what->device_uuid, uuid.bytes, sizeof(what->device_uuid));
	what->size = size;
	what->base_offset = pointer - base;
	what->base_size = base_size;
	what->backing = GPUSHARE_BACKING_IPC;
	what->address = pointer;
	return NULL;
}

static bool can_share(const struct driver *driver)
{
	return driver->cuCtxGetDevice && driver->cuDeviceGetUuid_v2 &&
	       driver->cuMemGetAddressRange_v2 && driver->cuIpcGetMemHandle;
}

static void share(const struct driver *driver, cu_deviceptr pointer, size_t size, const char *name)
{
	uint8_t handle[GPUSHARE_HANDLE_SIZE];
	struct live entry = {.pointer = pointer};
	record what = gpushare_Buffer_init_zero;
	cu_result result;
	const char *call;
	char why[512];
	int status;

	snprintf(what.name, sizeof(what.name), "%s", name);
	call = describe(driver, pointer, size, &what, handle, &result);
	if (call) {
		state_log("\"%s\" is not shared: %s answered %s", name, call,
			  driver_error_name(driver, result));
		return;
	}
	status = link_share(&what, handle, &entry.generation, why, sizeof(why));
	if (status != GPUSHARE_OK) {
		state_log("\"%s\" is not shared: %s", name, why);
		return;
	}
	memcpy(entry.name, what.name, sizeof(entry.name));
	if (!live_add(&entry)) {
		/* A name whose free we could not notice must not stand. */
		link_withdraw(name, entry.generation, why, sizeof(why));
		state_log("\"%s\" is not shared: out of memory", name);
		return;
	}
	state_log("\"%s\" is shared: %zu bytes", name, size);
}

void buffers_made(const struct driver *driver, cu_deviceptr pointer, size_t size)
{
	struct rules_allocation allocation = {.size = size};
	struct rules_match match;
	cu_device device = 0;
	int error = errno;

	if (!driver || !can_share(driver) || driver->cuCtxGetDevice(&device) != CU_OK)
		return;
	allocation.device = device;
	if (state_match(RULES_NAME, &allocation, &match))
		share(driver, pointer, size, match.name);
	errno = error;
}
