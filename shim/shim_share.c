/* SPDX-License-Identifier: MIT */
#include "shim_share.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "shim_link.h"
#include "shim_live.h"
#include "shim_process.h"
#include "shim_scope.h"
#include "vmm_host.h"

cu_result share_device(const struct driver *driver, cu_device device,
		       uint8_t out_uuid[GPUSHARE_UUID_SIZE])
{
	cu_result result = CU_NOT_SUPPORTED;
	cu_uuid uuid;

	if (driver->cuDeviceGetUuid_v2)
		result = driver->cuDeviceGetUuid_v2(&uuid, device);
	if (result == CU_OK)
		memcpy(out_uuid, uuid.bytes, GPUSHARE_UUID_SIZE);
	return result;
}

/* NULL, or the call that failed. */
static const char *describe(const struct driver *driver, struct live *entry, record *what,
			    cu_result *out_result)
{
	cu_ipc_mem_handle ipc;
	cu_deviceptr base = 0;
	size_t base_size = 0;

	*out_result = CU_NOT_SUPPORTED;
	if (!driver->cuCtxGetCurrent || !driver->cuMemGetAddressRange_v2 ||
	    !driver->cuIpcGetMemHandle)
		return "the driver";
	if ((*out_result = driver->cuCtxGetCurrent(&entry->context)) != CU_OK)
		return "cuCtxGetCurrent";
	if ((*out_result = share_device(driver, entry->device, what->device_uuid)) != CU_OK)
		return "cuDeviceGetUuid";
	if ((*out_result = driver->cuMemGetAddressRange_v2(&base, &base_size, entry->pointer)) !=
	    CU_OK)
		return "cuMemGetAddressRange";
	if ((*out_result = driver->cuIpcGetMemHandle(&ipc, entry->pointer)) != CU_OK)
		return "cuIpcGetMemHandle";
	memcpy(entry->handle, ipc.reserved, GPUSHARE_HANDLE_SIZE);
	what->base_offset = entry->pointer - base;
	what->base_size = base_size;
	what->backing = GPUSHARE_BACKING_IPC;
	what->address = entry->pointer;
	what->size = entry->size;
	return NULL;
}

static cu_result export_fd(const struct driver *driver, cu_mem_handle handle, int *out_fd)
{
	cu_result result = CU_NOT_SUPPORTED;

	if (driver->cuMemExportToShareableHandle)
		result = driver->cuMemExportToShareableHandle(
		    out_fd, handle, (cu_handle_type)CU_HANDLE_POSIX_FD, 0);
	if (result == CU_OK)
		fcntl(*out_fd, F_SETFD, FD_CLOEXEC);
	return result;
}

/* The same for mapped memory. */
static const char *describe_mapped(const struct driver *driver, struct live *entry, record *what,
				   int *out_fd, cu_result *out_result)
{
	*out_result = CU_NOT_SUPPORTED;
	if (!driver->cuCtxGetCurrent)
		return "the driver";
	if (!entry->context && (*out_result = driver->cuCtxGetCurrent(&entry->context)) != CU_OK)
		return "cuCtxGetCurrent";
	if ((*out_result = share_device(driver, entry->device, what->device_uuid)) != CU_OK)
		return "cuDeviceGetUuid";
	*out_result = entry->unified ? vmm_host_export(driver, &entry->mapping, out_fd)
				     : export_fd(driver, entry->mapping.handle, out_fd);
	if (*out_result != CU_OK)
		return "cuMemExportToShareableHandle";
	what->base_size = entry->mapping.size;
	what->backing = entry->unified ? GPUSHARE_BACKING_HOST : GPUSHARE_BACKING_VMM;
	what->address = entry->pointer;
	what->size = entry->size;
	what->flags = entry->flags;
	what->ttl_s = entry->ttl_s;
	return NULL;
}

/* Into the registry under its name, or the entry stays without one. */
static void enter(const struct driver *driver, struct live *entry)
{
	bool mapped = live_is_mapped(entry);
	record what = gpushare_Buffer_init_zero;
	_cleanup_close_ int fd = -1;
	cu_result result;
	const char *call;
	char why[512];

	strcpy(what.name, entry->name);
	entry->name[0] = '\0';
	call = mapped ? describe_mapped(driver, entry, &what, &fd, &result)
		      : describe(driver, entry, &what, &result);
	if (call)
		state_log("\"%s\" is not shared: %s answered %s", what.name, call,
			  driver_error_name(driver, result));
	else if (link_share(&what, mapped ? NULL : entry->handle, fd, &entry->generation, why,
			    sizeof(why)) != GPUSHARE_OK)
		state_log("\"%s\" is not shared: %s", what.name, why);
	else
		strcpy(entry->name, what.name);
}

/* Without a name too: the program is to be told the size that it asked for. */
static bool remember(const struct live *entry)
{
	if (live_add(entry)) {
		if (entry->name[0])
			state_log("\"%s\" is shared: %llu bytes", entry->name,
				  (unsigned long long)entry->size);
		return true;
	}
	if (entry->name[0])
		state_log("\"%s\" is not shared: out of memory", entry->name);
	/* A name whose end we could not notice must not stand. */
	share_end(entry->name, entry->generation, false);
	return false;
}

void share_pointer(const struct claim *claim, cu_deviceptr pointer, size_t size,
		   bool stream_ordered)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	struct live entry = {.pointer = pointer,
			     .size = size,
			     .device = claim->allocation.device,
			     .stream_ordered = stream_ordered};

	(void)scope;
	strcpy(entry.name, claim->match.name);
	enter(claim->driver, &entry);
	remember(&entry);
}

bool share_mapping(const struct claim *claim, const struct vmm_mapping *mapping, size_t size,
		   bool stream_ordered)
{
	struct live entry = {.pointer = mapping->pointer,
			     .size = size,
			     .kind = LIVE_OWN_VMM,
			     .device = claim->allocation.device,
			     .stream_ordered = stream_ordered,
			     .unified = claim->match.unified,
			     .managed = claim->match.unified,
			     .flags = claim->match.flags,
			     .ttl_s = claim->match.ttl_s,
			     .mapping = *mapping};

	strcpy(entry.name, claim->match.name);
	enter(claim->driver, &entry);
	return entry.name[0] && remember(&entry);
}

static bool adopt(const struct claim *claim, record *found, int *out_fd)
{
	record what = gpushare_Buffer_init_zero;
	char why[512];
	int status;

	strcpy(what.name, claim->match.name);
	what.size = claim->allocation.size;
	what.base_size = what.size;
	what.backing = claim->match.unified ? GPUSHARE_BACKING_HOST : GPUSHARE_BACKING_VMM;
	what.flags = claim->match.flags;
	what.ttl_s = claim->match.ttl_s;
	if (share_device(claim->driver, claim->allocation.device, what.device_uuid) != CU_OK)
		return false;
	status = link_adopt(&what, found, out_fd, why, sizeof(why));
	if (status != GPUSHARE_OK)
		state_log("\"%s\" is not adopted: %s", what.name, why);
	return status == GPUSHARE_OK;
}

bool share_adopted(const struct claim *claim, size_t size, bool stream_ordered,
		   cu_deviceptr *out_pointer)
{
	struct live entry = {.size = size,
			     .kind = LIVE_OWN_VMM,
			     .device = claim->allocation.device,
			     .stream_ordered = stream_ordered,
			     .unified = claim->match.unified,
			     .managed = claim->match.unified,
			     .flags = claim->match.flags,
			     .ttl_s = claim->match.ttl_s};
	_cleanup_close_ int fd = -1;
	struct vmm_wish wish = {.hold = claim->match.unified};
	const char *call = "cuCtxGetCurrent";
	cu_result result = CU_OK;
	record found;

	if (!adopt(claim, &found, &fd))
		return false;
	strcpy(entry.name, found.name);
	entry.generation = found.generation;
	wish.address = found.address;
	if (claim->driver->cuCtxGetCurrent)
		result = claim->driver->cuCtxGetCurrent(&entry.context);
	if (result == CU_OK)
		result = (entry.unified ? vmm_host_map : vmm_map)(
		    claim->driver, fd, found.base_size, entry.device, &wish, &entry.mapping, &call);
	if (result != CU_OK) {
		state_log("\"%s\" is not adopted: %s answered %s", entry.name, call,
			  result == VMM_ADDRESS_TAKEN ? "that its address is taken"
						      : driver_error_name(claim->driver, result));
		share_end(entry.name, entry.generation, false); /* kept as it was */
		return false;
	}
	entry.pointer = entry.mapping.pointer;
	if (!remember(&entry)) {
		vmm_unmap(claim->driver, &entry.mapping);
		return false;
	}
	state_log("\"%s\" is adopted, with what it holds", entry.name);
	*out_pointer = entry.pointer;
	return true;
}

void share_keep(const struct live *entry)
{
	_quiet_ struct quiet quiet = quiet_enter();

	(void)quiet;
	remember(entry);
}

void share_again(const struct driver *driver, struct live *entry)
{
	_scope_ struct scope scope = scope_enter(driver);

	(void)scope;
	if (entry->name[0])
		enter(driver, entry);
	remember(entry);
}

bool share_object(const struct claim *claim, cu_mem_handle handle, size_t size,
		  uint64_t *out_generation)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	record what = gpushare_Buffer_init_zero;
	_cleanup_close_ int fd = -1;
	cu_result result;
	char why[512];

	(void)scope;
	strcpy(what.name, claim->match.name);
	what.size = size;
	what.base_size = size;
	what.backing = GPUSHARE_BACKING_VMM;
	what.flags = claim->match.flags;
	what.ttl_s = claim->match.ttl_s;
	result = share_device(claim->driver, claim->allocation.device, what.device_uuid);
	if (result != CU_OK) {
		state_log("\"%s\" is not shared: cuDeviceGetUuid answered %s", what.name,
			  driver_error_name(claim->driver, result));
		return false;
	}
	result = export_fd(claim->driver, handle, &fd);
	if (result != CU_OK) {
		state_log("\"%s\" is not shared: cuMemExportToShareableHandle answered %s",
			  what.name, driver_error_name(claim->driver, result));
		return false;
	}
	if (link_share(&what, NULL, fd, out_generation, why, sizeof(why)) != GPUSHARE_OK) {
		state_log("\"%s\" is not shared: %s", what.name, why);
		return false;
	}
	state_log("\"%s\" is shared: %zu bytes", what.name, size);
	return true;
}

bool share_adopted_object(const struct claim *claim, cu_mem_handle *out_handle,
			  uint64_t *out_generation)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	const struct driver *driver = claim->driver;
	cu_result result = CU_NOT_SUPPORTED;
	_cleanup_close_ int fd = -1;
	record found;

	(void)scope;
	if (!adopt(claim, &found, &fd))
		return false;
	if (driver->cuMemImportFromShareableHandle && found.base_size == found.size)
		result = driver->cuMemImportFromShareableHandle(out_handle, (void *)(intptr_t)fd,
								(cu_handle_type)CU_HANDLE_POSIX_FD);
	if (result != CU_OK) {
		state_log("\"%s\" is not adopted: cuMemImportFromShareableHandle answered %s",
			  found.name, driver_error_name(driver, result));
		share_end(found.name, found.generation, false);
		return false;
	}
	*out_generation = found.generation;
	state_log("\"%s\" is adopted, with what it holds", found.name);
	return true;
}

void share_end(const char *name, uint64_t generation, bool attached)
{
	_quiet_ struct quiet quiet = quiet_enter();
	char why[512];
	int status;

	(void)quiet;
	if (!*name || process_is_ending() || !process_is_mine())
		return;
	status = attached ? link_detach(name, generation, why, sizeof(why))
			  : link_withdraw(name, generation, why, sizeof(why));
	if (status != GPUSHARE_OK && status != GPUSHARE_E_NOT_FOUND)
		state_log("\"%s\" is freed, but the registry was not told: %s", name, why);
}

void share_refuse(const struct claim *claim, const char *why)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	_quiet_ struct quiet quiet = quiet_enter();
	char line[700];

	(void)quiet;
	snprintf(line, sizeof(line), "gpushare: GPUSHARE_NAME: \"%s\" is not shared: %s",
		 claim->match.name, why);
	if (!atomic_flag_test_and_set(&said))
		state_tell(line);
	state_log("\"%s\" is not shared: %s", claim->match.name, why);
}
