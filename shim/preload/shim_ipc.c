/* SPDX-License-Identifier: MIT */
#include "shim_ipc.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "shim_attach.h"
#include "shim_describe.h"
#include "shim_link.h"
#include "cuda/shim_scope.h"
#include "shim_share.h"
#include "shim_state.h"

#define IPC_MAGIC UINT64_C(0x3165726168737067)
#define IPC_NAME 40

struct wire { /* the 64 bytes of a handle */
	uint64_t magic;
	uint64_t generation;
	uint64_t check;
	char name[IPC_NAME]; /* padded with zeros; without padding, the name may be longer */
};
_Static_assert(sizeof(struct wire) == sizeof(cu_ipc_mem_handle), "the handle's 64 bytes");

/* FNV-1a, so that a driver's handle is not mistaken for a handle of the shim by chance. */
static uint64_t check_of(const struct wire *wire)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ wire->generation;

	for (size_t i = 0; i < sizeof(wire->name); i++)
		hash = (hash ^ (uint8_t)wire->name[i]) * UINT64_C(0x100000001b3);
	return hash;
}

void ipc_make(const struct live *entry, cu_ipc_mem_handle *out_handle)
{
	struct wire wire = {.magic = IPC_MAGIC, .generation = entry->generation};

	memcpy(wire.name, entry->name, strnlen(entry->name, sizeof(wire.name)));
	wire.check = check_of(&wire);
	memcpy(out_handle, &wire, sizeof(wire));
}

bool ipc_is_ours(const cu_ipc_mem_handle *handle)
{
	struct wire wire;

	memcpy(&wire, handle, sizeof(wire));
	return wire.magic == IPC_MAGIC && wire.check == check_of(&wire);
}

/* Get the whole name: the handle holds only the beginning of a long one. */
static bool find_name(const struct wire *wire, char name[GPUSHARE_NAME_MAX + 1])
{
	char glob[IPC_NAME + 2];

	memset(name, 0, GPUSHARE_NAME_MAX + 1);
	memcpy(name, wire->name, sizeof(wire->name));
	if (!name_is_valid(name))
		return false;
	if (strlen(name) < sizeof(wire->name))
		return true;
	snprintf(glob, sizeof(glob), "%.*s*", IPC_NAME, wire->name);
	return link_find(glob, wire->generation, name);
}

/* The driver's answer for a handle whose memory is not available. */
static cu_result result_of(int status)
{
	switch (status) {
	case GPUSHARE_E_NOT_FOUND:
	case GPUSHARE_E_OWNER_GONE:
		return CU_INVALID_HANDLE;
	case GPUSHARE_E_DENIED:
		return CU_NOT_PERMITTED;
	case GPUSHARE_E_NO_MEMORY:
	case GPUSHARE_E_LIMIT:
		return CU_OUT_OF_MEMORY;
	default:
		return CU_MAP_FAILED;
	}
}

/* Map the buffer. Refuse a handle that this process made, as the driver does. */
static cu_result map(const struct driver *driver, const struct link_found *answer,
		     struct live *entry)
{
	const record *found = &answer->what;
	const struct vmm_wish wish = {.read_only = answer->read_only,
				      .hold = found->flags & GPUSHARE_FLAG_KEEP};
	const char *call = "cuCtxGetDevice";
	cu_result result;
	cu_device device;

	if (answer->own)
		return CU_INVALID_CONTEXT;
	if (found->backing != GPUSHARE_BACKING_VMM ||
	    !span_fits(found->base_offset, found->size, found->base_size))
		return CU_INVALID_HANDLE;
	result = driver->cuCtxGetDevice(&device);
	if (result == CU_OK)
		result = vmm_map(driver, answer->fd, found->base_size, device, &wish,
				 &entry->mapping, &call);
	if (result != CU_OK) {
		state_log("\"%s\" is not opened: %s answered %s", found->name, call,
			  driver_error_name(driver, result));
		return result;
	}
	entry->pointer = entry->mapping.pointer + found->base_offset;
	entry->size = found->size;
	return CU_OK;
}

static cu_result attach(const struct driver *driver, const struct wire *wire, struct live *entry)
{
	cu_result result = CU_INVALID_HANDLE;
	struct link_found found;
	char why[512];
	int status;

	if (!find_name(wire, entry->name))
		return CU_INVALID_HANDLE;
	status = link_attach(entry->name, false, &found, why, sizeof(why));
	if (status != GPUSHARE_OK) {
		state_log("\"%s\" is not opened: %s", entry->name, why);
		return result_of(status);
	}
	_cleanup_close_ int fd = found.fd;
	describe_found(entry, &found);
	if (entry->generation == wire->generation)
		result = map(driver, &found, entry);
	if (result == CU_OK && !live_add(entry)) {
		vmm_unmap(driver, &entry->mapping);
		result = CU_OUT_OF_MEMORY;
	}
	if (result != CU_OK)
		share_left(entry);
	return result;
}

cu_result ipc_open(const struct driver *driver, cu_deviceptr *out_pointer,
		   const cu_ipc_mem_handle *handle, unsigned int flags)
{
	_scope_ struct scope scope = scope_enter(driver);
	struct live entry = {.kind = LIVE_OPENED};
	struct wire wire;
	cu_result result;

	memcpy(&wire, handle, sizeof(wire));
	result = driver->cuCtxGetCurrent(&entry.context);
	if (result != CU_OK)
		return result;
	if (!entry.context)
		return CU_INVALID_CONTEXT;
	if (!out_pointer || flags != CU_IPC_LAZY_PEER_ACCESS)
		return CU_INVALID_VALUE;
	if (!live_open_again(wire.generation, &entry))
		result = attach(driver, &wire, &entry);
	if (result == CU_OK)
		*out_pointer = entry.pointer;
	return result;
}

bool ipc_close(const struct driver *driver, cu_deviceptr pointer, cu_result *out_result)
{
	struct live entry;

	if (!live_take(pointer, true, &entry))
		return false;
	*out_result = entry.count ? CU_OK : attach_end(driver, &entry);
	return true;
}
