/* SPDX-License-Identifier: MIT */
#include "vmm.h"

#include <fcntl.h>

#include "base/client_held.h"
#include "vmm_host.h"
#include "vmm_peers.h"
#include "vmm_range.h"

#define RANGE_TRIES 3

/* Map the memory at mapping->pointer, which is reserved, and grant access. */
static cu_result map_at(const struct driver *driver, const struct vmm_mapping *mapping,
			cu_device device, vmm_admit_call *admit, bool read_only,
			const char **out_call)
{
	cu_result result = driver->cuMemMap(mapping->pointer, mapping->size, 0, mapping->handle, 0);

	if (result != CU_OK) {
		*out_call = "cuMemMap";
		return result;
	}
	result = admit(driver, mapping, device, read_only);
	if (result == CU_OK)
		return CU_OK;
	*out_call = "cuMemSetAccess";
	driver->cuMemUnmap(mapping->pointer, mapping->size);
	return result;
}

/* The driver takes `wanted` as a hint: it may return another address, or fail. */
static cu_result reserve_at(const struct driver *driver, uint64_t size, uint64_t wanted,
			    cu_deviceptr *out_pointer)
{
	uint64_t alignment = wanted && wanted % RANGE_ALIGNMENT == 0 ? RANGE_ALIGNMENT : 0;

	return driver->cuMemAddressReserve(out_pointer, size, alignment, wanted, 0);
}

static cu_result reserve(const struct driver *driver, const struct vmm_wish *wish, uint64_t size,
			 uint64_t *out_pointer)
{
	cu_deviceptr pointer = 0;
	cu_result result = reserve_at(driver, size, wish->address, &pointer);

	if (result != CU_OK && wish->address)
		result = reserve_at(driver, size, 0, &pointer);
	if (result != CU_OK)
		return result;
	if (wish->must && wish->address && pointer != wish->address) {
		driver->cuMemAddressFree(pointer, size);
		return VMM_ADDRESS_TAKEN;
	}
	*out_pointer = pointer;
	return CU_OK;
}

/* Reserve in the range of vmm_range.h or, if that fails, anywhere. */
static cu_result reserve_own(const struct driver *driver, uint64_t size, uint64_t *out_pointer)
{
	cu_deviceptr pointer = 0;
	cu_result result;
	uint64_t wanted;

	for (int i = 1; (wanted = range_pick(size)); i++) {
		result = reserve_at(driver, size, wanted, &pointer);
		if (result == CU_OK && pointer == wanted) {
			*out_pointer = pointer;
			return CU_OK;
		}
		if (result == CU_OK)
			driver->cuMemAddressFree(pointer, size);
		if (result != CU_OK || i == RANGE_TRIES)
			range_give_up();
	}
	result = reserve_at(driver, size, 0, &pointer);
	if (result == CU_OK)
		*out_pointer = pointer;
	return result;
}

/* Map the handle's memory; if that fails, release the handle. `wish` is NULL for new memory: then
 * choose an address that other processes can probably use for it. */
static cu_result place(const struct driver *driver, struct vmm_mapping *mapping, cu_device device,
		       vmm_admit_call *admit, const struct vmm_wish *wish, const char **out_call)
{
	cu_result result = wish ? reserve(driver, wish, mapping->size, &mapping->pointer)
				: reserve_own(driver, mapping->size, &mapping->pointer);

	*out_call = "cuMemAddressReserve";
	if (result == CU_OK) {
		result = map_at(driver, mapping, device, admit, wish && wish->read_only, out_call);
		if (result != CU_OK)
			driver->cuMemAddressFree(mapping->pointer, mapping->size);
	}
	if (result != CU_OK)
		driver->cuMemRelease(mapping->handle);
	return result;
}

cu_result vmm_import(const struct driver *driver, int fd, cu_device device, vmm_admit_call *admit,
		     const struct vmm_wish *wish, struct vmm_mapping *mapping,
		     const char **out_call)
{
	cu_result result = driver->cuMemImportFromShareableHandle(
	    &mapping->handle, (void *)(intptr_t)fd, (cu_handle_type)CU_HANDLE_POSIX_FD);

	*out_call = "cuMemImportFromShareableHandle";
	return result == CU_OK ? place(driver, mapping, device, admit, wish, out_call) : result;
}

cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		  const char **out_call)
{
	struct vmm_mapping mapping = {.size = size};
	cu_result result = vmm_import(driver, fd, device, vmm_admit, wish, &mapping, out_call);

	if (result != CU_OK)
		return result;
	if (wish->hold)
		mapping.held = held_keep(fd);
	*out_mapping = mapping;
	return CU_OK;
}

cu_result vmm_make_of(const struct driver *driver, uint64_t size, cu_device device,
		      const cu_mem_prop *prop, vmm_admit_call *admit,
		      struct vmm_mapping *out_mapping, const char **out_call)
{
	struct vmm_mapping mapping = {.size = size};
	size_t granule = 0;
	cu_result result = driver->cuMemGetAllocationGranularity(
	    &granule, prop, (cu_granularity_flags)CU_GRANULARITY_MINIMUM);

	*out_call = "cuMemGetAllocationGranularity";
	if (result != CU_OK)
		return result;
	if (size > UINT64_MAX - granule)
		return CU_INVALID_VALUE;
	mapping.size = (size + granule - 1) / granule * granule;
	*out_call = "cuMemCreate";
	result = driver->cuMemCreate(&mapping.handle, mapping.size, prop, 0);
	if (result == CU_OK)
		result = place(driver, &mapping, device, admit, NULL, out_call);
	if (result == CU_OK)
		*out_mapping = mapping;
	return result;
}

cu_result vmm_make(const struct driver *driver, uint64_t size, cu_device device,
		   struct vmm_mapping *out_mapping)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = CU_LOCATION_DEVICE, .id = device},
	};
	const char *call;

	return vmm_make_of(driver, size, device, &prop, vmm_admit, out_mapping, &call);
}

cu_result vmm_export(const struct driver *driver, cu_mem_handle handle, int *out_fd)
{
	int fd = -1;
	cu_result result = driver->cuMemExportToShareableHandle(
	    &fd, handle, (cu_handle_type)CU_HANDLE_POSIX_FD, 0);

	if (result != CU_OK)
		return result;
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*out_fd = fd;
	return CU_OK;
}

cu_result vmm_export_at(const struct driver *driver, uint64_t pointer, int *out_fd,
			bool *out_mapped)
{
	cu_mem_handle handle;
	cu_result result = driver->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)pointer);

	*out_mapped = result == CU_OK;
	if (result != CU_OK)
		return result;
	result = vmm_export(driver, handle, out_fd);
	driver->cuMemRelease(handle);
	return result;
}

cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping)
{
	cu_result unmapped, freed, released;

	if (mapping->file)
		return vmm_host_unmap_file(driver, mapping);
	unmapped = driver->cuMemUnmap(mapping->pointer, mapping->size);
	freed = driver->cuMemAddressFree(mapping->pointer, mapping->size);
	released = driver->cuMemRelease(mapping->handle);
	held_drop(mapping->held);
	if (unmapped != CU_OK)
		return unmapped;
	return freed != CU_OK ? freed : released;
}
