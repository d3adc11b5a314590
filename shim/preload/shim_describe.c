/* SPDX-License-Identifier: MIT */
#include "shim_describe.h"

#include <string.h>

#include "base/client_held.h"
#include "client/rights.h"
#include "cuda/vmm_host.h"

cu_result describe_device(const struct driver *driver, cu_device device,
			  uint8_t out_uuid[GPUSHARE_UUID_SIZE])
{
	cu_uuid uuid;
	cu_result result = driver->cuDeviceGetUuid_v2(&uuid, device);

	if (result == CU_OK)
		memcpy(out_uuid, uuid.bytes, GPUSHARE_UUID_SIZE);
	return result;
}

static bool fail(struct description *out, const char *call, cu_result result)
{
	out->call = call;
	out->result = result;
	return false;
}

static bool describe_plain(const struct driver *driver, struct live *entry, struct description *out)
{
	struct memory *what = &out->what;
	cu_ipc_mem_handle ipc;
	cu_deviceptr base = 0;
	size_t base_size = 0;
	cu_result result;

	result = driver->cuMemGetAddressRange_v2(&base, &base_size, entry->pointer);
	if (result != CU_OK)
		return fail(out, "cuMemGetAddressRange", result);
	result = driver->cuIpcGetMemHandle(&ipc, entry->pointer);
	if (result != CU_OK)
		return fail(out, "cuIpcGetMemHandle", result);
	memcpy(entry->handle, ipc.reserved, GPUSHARE_HANDLE_SIZE);
	what->base_offset = entry->pointer - base;
	what->base_size = base_size;
	what->backing = GPUSHARE_BACKING_IPC;
	return true;
}

/* The driver doesn't export imported memory again: its file descriptor is held, or there is none.
 * Other memory is exported by its handle. If the program has released that, get a handle from the
 * address of the mapping. */
static cu_result export_fd(const struct driver *driver, const struct live *entry, int *out_fd)
{
	const char *call;

	if (entry->unified)
		return vmm_host_export(driver, &entry->mapping, out_fd);
	if (entry->mapping.held) {
		*out_fd = held_open(entry->mapping.held);
		return *out_fd < 0 ? CU_INVALID_HANDLE : CU_OK;
	}
	return !entry->pointer && entry->mapping.pointer
		   ? vmm_export_at(driver, entry->mapping.pointer, out_fd, &call)
		   : vmm_export(driver, entry->mapping.handle, out_fd);
}

static bool describe_mapped(const struct driver *driver, const struct live *entry,
			    struct description *out)
{
	struct memory *what = &out->what;
	cu_result result = export_fd(driver, entry, &out->fd);

	if (result != CU_OK) {
		out->fd = -1;
		return fail(out, "cuMemExportToShareableHandle", result);
	}
	what->base_size = entry->mapping.size;
	what->backing = entry->unified ? GPUSHARE_BACKING_HOST : GPUSHARE_BACKING_VMM;
	what->flags = entry->flags;
	what->ttl_s = entry->ttl_s;
	return true;
}

bool describe_own(const struct driver *driver, struct live *entry, struct description *out)
{
	cu_result result;

	*out = (struct description){.fd = -1};
	if (!entry->context && (result = driver->cuCtxGetCurrent(&entry->context)) != CU_OK)
		return fail(out, "cuCtxGetCurrent", result);
	result = describe_device(driver, entry->device, out->what.device_uuid);
	if (result != CU_OK)
		return fail(out, "cuDeviceGetUuid", result);
	out->what.address = entry->pointer;
	out->what.size = entry->size;
	return live_is_mapped(entry) ? describe_mapped(driver, entry, out)
				     : describe_plain(driver, entry, out);
}

bool describe_attached(const struct driver *driver, const struct live *entry,
		       struct description *out)
{
	*out = (struct description){.fd = -1};
	memcpy(out->what.device_uuid, entry->uuid, GPUSHARE_UUID_SIZE);
	out->what.address = entry->address;
	out->what.size = entry->whole;
	if (entry->pointer)
		out->what.base_offset = entry->pointer - entry->mapping.pointer;
	return describe_mapped(driver, entry, out);
}

void describe_rights(struct live *entry, const record *found)
{
	if (!entry->mode)
		entry->mode = found->mode;
	if (!entry->group[0])
		rights_name_group(found->owner_gid, &entry->mode, entry->group,
				  sizeof(entry->group));
}

void describe_note(struct live *entry, const record *found)
{
	entry->whole = found->size;
	entry->address = found->address;
	entry->flags = found->flags;
	describe_rights(entry, found);
	entry->ttl_s = found->ttl_s;
	memcpy(entry->uuid, found->device_uuid, GPUSHARE_UUID_SIZE);
}
