/* SPDX-License-Identifier: MIT */
/* Host memory: pinned, registered and managed. */

#include "driver_sim.h"
#include "driver_stream.h"

/* CUresult values that cuda_abi.h does not name */
#define HOST_ALREADY_REGISTERED 712
#define HOST_NOT_REGISTERED 713
#define HOST_ALLOC_FLAGS 0x7u
#define HOST_REGISTER_FLAGS 0xfu

static uint64_t host_pages(uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) & ~(page - 1);
}

static cu_result host_map(uint64_t *pointer, uint64_t size, enum region_kind kind)
{
	if (!size)
		return CU_INVALID_VALUE;
	if (size > (uint64_t)1 << 46)
		return CU_OUT_OF_MEMORY;
	void *address = mmap(NULL, host_pages(size), PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (address == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	STATE_LOCKED;
	struct region region = {
	    .start = (uintptr_t)address,
	    .size = size,
	    .kind = kind,
	    .device = context_device(),
	    .context = context_current(),
	    .access = CU_ACCESS_READ_WRITE,
	};
	if (!region_add(&region)) {
		munmap(address, host_pages(size));
		return CU_OUT_OF_MEMORY;
	}
	*pointer = region.start;
	return CU_OK;
}

/* Under the lock. */
cu_result host_free(struct region *region)
{
	uint64_t start = region->start, size = region->size;

	region_remove(region);
	munmap((void *)(uintptr_t)start, host_pages(size));
	return CU_OK;
}

CALL_LOGGED(cuMemAllocManaged, NEED_NO_CAPTURE,
	    (cu_deviceptr * pointer, size_t size, unsigned int flags), (pointer, size, flags),
	    answer_ == CU_OK ? *pointer : 0, size)
{
	uint64_t start;

	if (!pointer || (flags != 1 && flags != 2 && flags != 4))
		return CU_INVALID_VALUE;
	if (size > state.capacity)
		return CU_OUT_OF_MEMORY;
	cu_result result = host_map(&start, size, REGION_MANAGED);
	if (result == CU_OK)
		*pointer = start;
	return result;
}

CALL_LOGGED(cuMemHostAlloc, NEED_NO_CAPTURE, (void **pointer, size_t size, unsigned int flags),
	    (pointer, size, flags), answer_ == CU_OK ? (uintptr_t)*pointer : 0, size)
{
	uint64_t start;

	if (!pointer || (flags & ~HOST_ALLOC_FLAGS))
		return CU_INVALID_VALUE;
	cu_result result = host_map(&start, size, REGION_HOST);
	if (result == CU_OK)
		*pointer = (void *)(uintptr_t)start;
	return result;
}

CALL_LOGGED(cuMemFreeHost, NEED_CONTEXT, (void *pointer), (pointer), (uintptr_t)pointer, 0)
{
	if (!pointer)
		return CU_OK;
	STATE_LOCKED;
	struct region *region = region_exactly((uintptr_t)pointer);
	if (!region || region->kind != REGION_HOST)
		return CU_INVALID_VALUE;
	return host_free(region);
}

CALL_LOGGED(cuMemHostRegister_v2, NEED_NO_CAPTURE, (void *pointer, size_t size, unsigned int flags),
	    (pointer, size, flags), (uintptr_t)pointer, size)
{
	uint64_t start = (uintptr_t)pointer;

	if (!pointer || !size || start + size < start || (flags & ~HOST_REGISTER_FLAGS))
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	if (region_overlaps(start, size))
		return (cu_result)HOST_ALREADY_REGISTERED;
	struct region region = {
	    .start = start,
	    .size = size,
	    .kind = REGION_REGISTERED,
	    .device = context_device(),
	    .context = context_current(),
	    .access = flags & CU_HOST_REGISTER_READ_ONLY ? CU_ACCESS_READ : CU_ACCESS_READ_WRITE,
	};
	return region_add(&region) ? CU_OK : CU_OUT_OF_MEMORY;
}

/* Unified addressing: a host pointer is also its device pointer. */
CALL(cuMemHostGetDevicePointer_v2, NEED_CONTEXT,
     (cu_deviceptr * device, void *pointer, unsigned int flags), (device, pointer, flags))
{
	if (!device || flags)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	const struct region *region = region_find((uintptr_t)pointer);
	if (!region || (region->kind != REGION_HOST && region->kind != REGION_REGISTERED))
		return CU_INVALID_VALUE;
	*device = (uintptr_t)pointer;
	return CU_OK;
}

/* As the real driver does, wait first for the work of all streams. */
CALL_LOGGED(cuMemHostUnregister, NEED_CONTEXT, (void *pointer), (pointer), (uintptr_t)pointer, 0)
{
	wait_for_all();
	STATE_LOCKED;
	struct region *region = region_exactly((uintptr_t)pointer);
	if (!region || region->kind != REGION_REGISTERED)
		return (cu_result)HOST_NOT_REGISTERED;
	region_remove(region);
	return CU_OK;
}
