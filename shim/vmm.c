/* SPDX-License-Identifier: MIT */
#include "vmm.h"

/* What mapping and unmapping need, which a driver older than CUDA 10.2 lacks. */
#define VMM_CALLS(N) \
	N(cuMemImportFromShareableHandle) N(cuMemRelease) N(cuMemAddressReserve) \
	N(cuMemAddressFree) N(cuMemMap) N(cuMemUnmap) N(cuMemSetAccess)

static const char *first_missing(const struct driver *driver)
{
#define N(name) \
	if (!driver->name) \
		return #name;
	VMM_CALLS(N)
#undef N
	return NULL;
}

/* The import has an address already: memory behind it, and access to that. */
static cu_result map_at(const struct driver *driver, const struct vmm_mapping *mapping,
			cu_device device, const char **out_call)
{
	const cu_mem_access access = {
		.location = {.type = CU_LOCATION_DEVICE, .id = device},
		.flags = CU_ACCESS_READ_WRITE,
	};
	cu_result result = driver->cuMemMap(mapping->pointer, mapping->size, 0, mapping->handle, 0);

	if (result != CU_OK) {
		*out_call = "cuMemMap";
		return result;
	}
	result = driver->cuMemSetAccess(mapping->pointer, mapping->size, &access, 1);
	if (result == CU_OK)
		return CU_OK;
	*out_call = "cuMemSetAccess";
	driver->cuMemUnmap(mapping->pointer, mapping->size);
	return result;
}

static cu_result reserve(const struct driver *driver, struct vmm_mapping *mapping,
			 cu_device device, const char **out_call)
{
	cu_deviceptr pointer = 0;
	cu_result result = driver->cuMemAddressReserve(&pointer, mapping->size, 0, 0, 0);

	if (result != CU_OK) {
		*out_call = "cuMemAddressReserve";
		return result;
	}
	mapping->pointer = pointer;
	result = map_at(driver, mapping, device, out_call);
	if (result != CU_OK)
		driver->cuMemAddressFree(pointer, mapping->size);
	return result;
}

cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  struct vmm_mapping *out_mapping, const char **out_call)
{
	struct vmm_mapping mapping = {.size = size};
	const char *missing = first_missing(driver);
	cu_result result;

	if (missing) {
		*out_call = missing;
		return CU_NOT_SUPPORTED;
	}
	result = driver->cuMemImportFromShareableHandle(&mapping.handle, (void *)(intptr_t)fd,
							(cu_handle_type)CU_HANDLE_POSIX_FD);
	if (result != CU_OK) {
		*out_call = "cuMemImportFromShareableHandle";
		return result;
	}
	result = reserve(driver, &mapping, device, out_call);
	if (result != CU_OK) {
		driver->cuMemRelease(mapping.handle);
		return result;
	}
	*out_mapping = mapping;
	return CU_OK;
}

cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping)
{
	cu_result unmapped, freed, released;

	if (first_missing(driver))
		return CU_NOT_SUPPORTED;
	unmapped = driver->cuMemUnmap(mapping->pointer, mapping->size);
	freed = driver->cuMemAddressFree(mapping->pointer, mapping->size);
	released = driver->cuMemRelease(mapping->handle);
	if (unmapped != CU_OK)
		return unmapped;
	return freed != CU_OK ? freed : released;
}
