/* SPDX-License-Identifier: MIT */
#include "vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>

#include "base/client_held.h"
#include "vmm_host.h"

#define RANGE_TRIES 3

/*
 * 24 TiB of a 47-bit or larger address space, on x86-64 and aarch64 alike. Below it lie the shadows
 * of the sanitizers (TSan's ends at 0x340000000000), ZGC's and Go's heaps and what the CUDA driver
 * reserves at start-up. Above it lie PIE programs, libraries, heaps and stacks. If a CPU's or a
 * GPU's addresses are shorter, the driver gives another address.
 */
#define RANGE_FIRST UINT64_C(0x380000000000)
#define RANGE_SIZE UINT64_C(0x180000000000)
#define STEP_LARGE ((uint64_t)512 << 20) /* the largest page of a GPU */

static atomic_bool useless;

/* Called if the driver refuses the picked address each time: from then on range_pick() returns 0 in
 * this process. */
static void range_give_up(void)
{
	atomic_store_explicit(&useless, true, memory_order_relaxed);
}

uint64_t range_pick(uint64_t size)
{
	uint64_t step = size < STEP_LARGE ? RANGE_ALIGNMENT : STEP_LARGE, random;
	int error = errno;

	if (size > RANGE_SIZE / 2 || atomic_load_explicit(&useless, memory_order_relaxed))
		return 0;
	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random)) {
		errno = error;
		return 0;
	}
	return RANGE_FIRST + random % ((RANGE_SIZE - size) / step + 1) * step;
}

/* The other devices that can reach `device`, or all other devices. */
static size_t find_peers(const struct driver *driver, cu_device device, bool all,
			 cu_mem_access accesses[VMM_DEVICES_MAX], int flags)
{
	int count = 0, can;
	size_t found = 0;
	cu_device peer;

	if (driver->cuDeviceGetCount(&count) != CU_OK)
		return 0;
	for (int ordinal = 0; ordinal < count && found < VMM_DEVICES_MAX; ordinal++) {
		can = 0;
		if (driver->cuDeviceGet(&peer, ordinal) == CU_OK && peer != device &&
		    (all || (driver->cuDeviceCanAccessPeer(&can, peer, device) == CU_OK && can)))
			accesses[found++] = (cu_mem_access){
			    .location = {.type = CU_LOCATION_DEVICE, .id = peer},
			    .flags = flags,
			};
	}
	return found;
}

static cu_result let_in(const struct driver *driver, const struct vmm_mapping *mapping,
			const cu_mem_access *accesses, size_t count)
{
	return driver->cuMemSetAccess(mapping->pointer, mapping->size, accesses, count);
}

/* Grant access to the CPU (whatever its node) if it is the host's memory, to the device, and to the
 * devices that can reach the memory: in one call, or one by one if the driver refuses one of them. */
static cu_result admit(const struct driver *driver, const struct vmm_mapping *mapping,
		       cu_device device, bool read_only)
{
	int flags = read_only ? CU_ACCESS_READ : CU_ACCESS_READ_WRITE;
	const cu_mem_access host = {.location = {.type = VMM_LOCATION_HOST}, .flags = flags};
	cu_mem_access accesses[1 + VMM_DEVICES_MAX] = {{
	    .location = {.type = CU_LOCATION_DEVICE, .id = device},
	    .flags = flags,
	}};
	size_t count = 1 + find_peers(driver, device, mapping->host, accesses + 1, flags);
	cu_result result = mapping->host ? let_in(driver, mapping, &host, 1) : CU_OK;

	if (result != CU_OK)
		return result;
	result = let_in(driver, mapping, accesses, count);
	if (result == CU_OK || count == 1)
		return result;
	result = let_in(driver, mapping, accesses, 1);
	for (size_t i = 1; result == CU_OK && i < count; i++)
		let_in(driver, mapping, accesses + i, 1);
	return result;
}

/* Map the memory at mapping->pointer, which is reserved, and grant access. */
static cu_result map_at(const struct driver *driver, const struct vmm_mapping *mapping,
			cu_device device, bool read_only, const char **out_call)
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

/* Reserve at an address of range_pick() or, if that fails, anywhere. */
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
		       const struct vmm_wish *wish, const char **out_call)
{
	cu_result result = wish ? reserve(driver, wish, mapping->size, &mapping->pointer)
				: reserve_own(driver, mapping->size, &mapping->pointer);

	*out_call = "cuMemAddressReserve";
	if (result == CU_OK) {
		result = map_at(driver, mapping, device, wish && wish->read_only, out_call);
		if (result != CU_OK)
			driver->cuMemAddressFree(mapping->pointer, mapping->size);
	}
	if (result != CU_OK)
		driver->cuMemRelease(mapping->handle);
	return result;
}

cu_result vmm_import(const struct driver *driver, int fd, cu_device device,
		     const struct vmm_wish *wish, struct vmm_mapping *mapping,
		     const char **out_call)
{
	cu_result result = driver->cuMemImportFromShareableHandle(
	    &mapping->handle, (void *)(intptr_t)fd, (cu_handle_type)CU_HANDLE_POSIX_FD);

	*out_call = "cuMemImportFromShareableHandle";
	return result == CU_OK ? place(driver, mapping, device, wish, out_call) : result;
}

cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		  const char **out_call)
{
	struct vmm_mapping mapping = {.size = size};
	cu_result result = vmm_import(driver, fd, device, wish, &mapping, out_call);

	if (result != CU_OK)
		return result;
	if (wish->hold)
		mapping.held = held_keep(fd);
	*out_mapping = mapping;
	return CU_OK;
}

cu_result vmm_make_of(const struct driver *driver, uint64_t size, cu_device device,
		      const cu_mem_prop *prop, struct vmm_mapping *out_mapping,
		      const char **out_call)
{
	struct vmm_mapping mapping = {.host = prop->location.type == VMM_LOCATION_HOST};
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
		result = place(driver, &mapping, device, NULL, out_call);
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

	return vmm_make_of(driver, size, device, &prop, out_mapping, &call);
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

void vmm_links_keep(struct vmm_links *links, const struct driver *driver, cu_device device)
{
	cu_mem_access peers[VMM_DEVICES_MAX];
	struct vmm_link *link;

	if (device < 0 || device >= VMM_DEVICES_MAX)
		return;
	link = &links->of[device];
	if (atomic_load_explicit(&link->tried, memory_order_relaxed) ||
	    atomic_exchange(&link->tried, true) ||
	    !find_peers(driver, device, false, peers, CU_ACCESS_READ_WRITE))
		return;
	atomic_store(&link->kept, vmm_make(driver, 1, device, &link->mapping) == CU_OK);
}

void vmm_links_drop(struct vmm_links *links, const struct driver *driver)
{
	for (int device = 0; device < VMM_DEVICES_MAX; device++) {
		struct vmm_link *link = &links->of[device];

		if (atomic_exchange(&link->kept, false))
			vmm_unmap(driver, &link->mapping);
		atomic_store(&link->tried, false);
	}
}
