/* SPDX-License-Identifier: MIT */
#include "shim_describe.h"

#include <string.h>

#include "base/client_held.h"
#include "client/rights.h"
#include "cuda/vmm.h"

cu_result describe_device(const struct driver *driver, cu_device device,
			  uint8_t out_uuid[GPUSHARE_UUID_SIZE])
{
	cu_uuid uuid;
	cu_result result = driver->cuDeviceGetUuid_v2(&uuid, device);

	if (result == CU_OK)
		memcpy(out_uuid, uuid.bytes, GPUSHARE_UUID_SIZE);
	return result;
}

static cu_result describe_plain(const struct driver *driver, struct live *entry,
				struct memory *what, const char **out_call)
{
	cu_ipc_mem_handle ipc;
	cu_deviceptr base = 0;
	size_t base_size = 0;
	cu_result result;

	*out_call = "cuMemGetAddressRange";
	result = driver->cuMemGetAddressRange_v2(&base, &base_size, entry->pointer);
	if (result != CU_OK)
		return result;
	*out_call = "cuIpcGetMemHandle";
	result = driver->cuIpcGetMemHandle(&ipc, entry->pointer);
	if (result != CU_OK)
		return result;
	memcpy(entry->handle, ipc.reserved, GPUSHARE_HANDLE_SIZE);
	what->base_offset = entry->pointer - base;
	what->base_size = base_size;
	what->backing = GPUSHARE_BACKING_IPC;
	return CU_OK;
}

/* The driver can't export imported memory again: use the descriptor in mapping.held, if there is
 * one. Otherwise export the memory by its handle. If the program has released an object's handles,
 * export it by an address where it is mapped. */
static cu_result export_fd(const struct driver *driver, const struct live *entry, int *out_fd)
{
	bool mapped;

	if (entry->unified)
		return vmm_host_export(driver, &entry->mapping, out_fd);
	if (entry->mapping.held) {
		*out_fd = held_open(entry->mapping.held);
		return *out_fd < 0 ? CU_INVALID_HANDLE : CU_OK;
	}
	return !entry->pointer && entry->mapping.pointer
		   ? vmm_export_at(driver, entry->mapping.pointer, out_fd, &mapped)
		   : vmm_export(driver, entry->mapping.handle, out_fd);
}

static cu_result describe_mapped(const struct driver *driver, const struct live *entry,
				 struct memory *what, const char **out_call)
{
	cu_result result = export_fd(driver, entry, &what->fd);

	*out_call = "cuMemExportToShareableHandle";
	if (result != CU_OK) {
		what->fd = -1;
		return result;
	}
	what->base_size = entry->mapping.size;
	what->backing = entry->unified ? GPUSHARE_BACKING_HOST : GPUSHARE_BACKING_VMM;
	what->flags = entry->flags;
	what->ttl_s = entry->ttl_s;
	return CU_OK;
}

/* The memory's context must be current. If entry->context is NULL, set it to that context. */
static cu_result describe_own(const struct driver *driver, struct live *entry, struct memory *out,
			      const char **out_call)
{
	cu_result result;

	*out_call = "cuCtxGetCurrent";
	if (!entry->context && (result = driver->cuCtxGetCurrent(&entry->context)) != CU_OK)
		return result;
	*out_call = "cuDeviceGetUuid";
	result = describe_device(driver, entry->device, out->device_uuid);
	if (result != CU_OK)
		return result;
	out->address = entry->pointer;
	out->size = entry->size;
	return live_is_mapped(entry) ? describe_mapped(driver, entry, out, out_call)
				     : describe_plain(driver, entry, out, out_call);
}

static cu_result describe_attached(const struct driver *driver, const struct live *entry,
				   struct memory *out, const char **out_call)
{
	*out_call = NULL;
	if (!live_is_mapped(entry) || !(entry->flags & GPUSHARE_FLAG_KEEP))
		return CU_NOT_SUPPORTED;
	out->orphan = true;
	memcpy(out->device_uuid, entry->uuid, GPUSHARE_UUID_SIZE);
	out->address = entry->address;
	out->size = entry->whole;
	if (entry->pointer)
		out->base_offset = entry->pointer - entry->mapping.pointer;
	return describe_mapped(driver, entry, out, out_call);
}

cu_result describe_memory(const struct driver *driver, struct live *entry, struct memory *out,
			  const char **out_call)
{
	*out = (struct memory){.name = entry->name,
			       .group = entry->group,
			       .mode = entry->mode,
			       .handle = entry->handle,
			       .fd = -1};
	return live_is_own(entry) ? describe_own(driver, entry, out, out_call)
				  : describe_attached(driver, entry, out, out_call);
}

void describe_rights(struct live *entry, const record *found)
{
	if (!entry->mode)
		entry->mode = found->mode;
	if (!entry->group[0])
		rights_name_group(found->owner_gid, &entry->mode, entry->group,
				  sizeof(entry->group));
}

void describe_found(struct live *entry, const struct link_found *found)
{
	const record *what = &found->what;

	strcpy(entry->name, what->name);
	entry->generation = what->generation;
	entry->reading = found->reading;
	entry->whole = what->size;
	entry->address = what->address;
	entry->flags = what->flags;
	describe_rights(entry, what);
	entry->ttl_s = what->ttl_s;
	memcpy(entry->uuid, what->device_uuid, GPUSHARE_UUID_SIZE);
}
