/* SPDX-License-Identifier: MIT */
/* GPUSHARE_ATTACH: an allocation that a rule takes is answered with a named buffer; and frees. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shim_buffers.h"
#include "shim_link.h"
#include "shim_live.h"
#include "shim_state.h"

/* Why a rule's buffer was not used: one line, and the error for a rule with `must`. */
struct refusal {
	char why[512];
	cu_result result;
};

static bool refuse(struct refusal *refusal, cu_result result, const char *why)
{
	refusal->result = result;
	if (why != refusal->why)
		snprintf(refusal->why, sizeof(refusal->why), "%s", why);
	return false;
}

static bool device_is_visible(const struct driver *driver, const uint8_t wanted[GPUSHARE_UUID_SIZE])
{
	int count = 0;

	if (driver->cuDeviceGetCount(&count) != CU_OK)
		return false;
	for (int i = 0; i < count; i++) {
		cu_device device;
		cu_uuid uuid;

		if (driver->cuDeviceGet(&device, i) == CU_OK &&
		    driver->cuDeviceGetUuid_v2(&uuid, device) == CU_OK &&
		    !memcmp(uuid.bytes, wanted, GPUSHARE_UUID_SIZE))
			return true;
	}
	return false;
}

static bool open_buffer(const struct driver *driver, const record *what,
			const uint8_t handle[GPUSHARE_HANDLE_SIZE], size_t size, bool own,
			struct live *entry, struct refusal *refusal)
{
	cu_ipc_mem_handle ipc;
	cu_deviceptr mapping;
	cu_result result;

	if (own)
		return refuse(refusal, CU_INVALID_VALUE, "this process owns it");
	if (what->size < size) {
		snprintf(refusal->why, sizeof(refusal->why), "it has %llu bytes, the program asks for %zu",
			 (unsigned long long)what->size, size);
		return refuse(refusal, CU_OUT_OF_MEMORY, refusal->why);
	}
	if (!device_is_visible(driver, what->device_uuid))
		return refuse(refusal, CU_INVALID_DEVICE, "its GPU is not visible to this process");
	memcpy(ipc.reserved, handle, GPUSHARE_HANDLE_SIZE);
	result = driver->cuIpcOpenMemHandle_v2(&mapping, ipc, CU_IPC_LAZY_PEER_ACCESS);
	if (result != CU_OK) {
		snprintf(refusal->why, sizeof(refusal->why), "cuIpcOpenMemHandle answered %s",
			 driver_error_name(driver, result));
		return refuse(refusal, result, refusal->why);
	}
	entry->mapping = mapping;
	entry->pointer = mapping + what->base_offset;
	return true;
}

static bool attach(const struct driver *driver, const struct rules_match *match, size_t size,
		   cu_deviceptr *out_pointer, struct refusal *refusal)
{
	record what = gpushare_Buffer_init_zero;
	uint8_t handle[GPUSHARE_HANDLE_SIZE];
	struct live entry = {.pointer = 0};
	char unused[512];
	bool own = false;
	int status = link_attach(match->name, match->wait_ms, &what, handle, &own, refusal->why,
				 sizeof(refusal->why));

	if (status != GPUSHARE_OK)
		return refuse(refusal, CU_OUT_OF_MEMORY, refusal->why);
	memcpy(entry.name, what.name, sizeof(entry.name));
	entry.generation = what.generation;
	if (!open_buffer(driver, &what, handle, size, own, &entry, refusal)) {
		link_detach(match->name, what.generation, unused, sizeof(unused));
		return false;
	}
	if (!live_add(&entry)) {
		driver->cuIpcCloseMemHandle(entry.mapping);
		link_detach(match->name, what.generation, unused, sizeof(unused));
		return refuse(refusal, CU_OUT_OF_MEMORY, "out of memory");
	}
	*out_pointer = entry.pointer;
	state_log("\"%s\" is attached: %zu of %llu bytes asked for", match->name, size,
		  (unsigned long long)what.size);
	return true;
}

static bool can_attach(const struct driver *driver)
{
	return driver->cuCtxGetDevice && driver->cuDeviceGetCount && driver->cuDeviceGet &&
	       driver->cuDeviceGetUuid_v2 && driver->cuIpcOpenMemHandle_v2 &&
	       driver->cuIpcCloseMemHandle;
}

bool buffers_attach(const struct driver *driver, size_t size, cu_deviceptr *out_pointer,
		    cu_result *out_result)
{
	struct rules_allocation allocation = {.size = size};
	struct refusal refusal = {.result = CU_OK};
	struct rules_match match;
	char line[900];
	cu_device device = 0;
	int error = errno;
	bool answered;

	/* A call that the driver would refuse is the driver's to refuse. */
	if (!driver || !out_pointer || !size || !can_attach(driver) ||
	    driver->cuCtxGetDevice(&device) != CU_OK)
		return false;
	allocation.device = device;
	if (!state_match(RULES_ATTACH, &allocation, &match)) {
		errno = error;
		return false;
	}
	answered = attach(driver, &match, size, out_pointer, &refusal);
	*out_result = refusal.result;
	if (!answered) {
		snprintf(line, sizeof(line), "gpushare: GPUSHARE_ATTACH: \"%s\" is not attached: %s; %s",
			 match.name, refusal.why,
			 match.must ? "the allocation fails, as the rule says \"must\""
				    : "the program gets ordinary memory");
		state_tell(line);
	}
	errno = error;
	return answered || match.must;
}

bool buffers_gone(const struct driver *driver, cu_deviceptr pointer, cu_result *out_result)
{
	struct live entry;
	int error = errno;
	char why[512];
	int status;

	if (!state_is_mine() || !live_take(pointer, &entry))
		return false;
	if (entry.mapping) {
		*out_result = driver->cuIpcCloseMemHandle(entry.mapping);
		status = link_detach(entry.name, entry.generation, why, sizeof(why));
	} else {
		status = link_withdraw(entry.name, entry.generation, why, sizeof(why));
	}
	if (status != GPUSHARE_OK && status != GPUSHARE_E_NOT_FOUND)
		state_log("\"%s\" is freed, but the registry was not told: %s", entry.name, why);
	errno = error;
	return entry.mapping != 0;
}
