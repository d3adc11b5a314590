/* SPDX-License-Identifier: MIT */
#include "vmm.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/client_held.h"

#define RANGE_TRIES 3
#define BLOCK ((uint64_t)2 << 20)   /* the size of a memfd is a multiple of this */
#define LARGEST ((uint64_t)1 << 46) /* half of a 47-bit address space */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Values of CUDA 12.2. Older toolkits don't know them and older drivers refuse them. */
#define DEVICE_HOST_NUMA_ID ((cu_device_attribute)134)
#define DEVICE_HOST_NUMA_VMM ((cu_device_attribute)141)
/* the result of unregistering memory whose context is destroyed */
#define NOT_REGISTERED 713

/*
 * 24 TiB of a 47-bit or larger address space, on x86-64 and aarch64 alike. Below it lie the shadows
 * of the sanitizers (TSan's ends at 0x340000000000), ZGC's and Go's heaps and what the CUDA driver
 * reserves at start-up. Above it lie PIE programs, libraries, heaps and stacks. If a CPU's or a
 * GPU's addresses are shorter, the driver gives another address.
 */
#define RANGE_FIRST UINT64_C(0x380000000000)
#define RANGE_SIZE UINT64_C(0x180000000000)
#define STEP_LARGE ((uint64_t)512 << 20) /* the largest page of a GPU */

/* The driver has refused an address of range_pick(), or has returned another one RANGE_TRIES times:
 * from then on range_pick() returns 0 in this process. */
static atomic_bool useless;

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

/* Find the other devices that can reach `device`; if `all`, all other devices. */
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

/* Grant access to the CPU (whatever its node) if it is the host's memory; then to the device, and
 * to the devices that can reach the memory. If the driver refuses these devices together, grant it
 * to each one that the driver accepts; only a refusal for `device` itself is an error. */
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
	if ((wish->must || wish->host) && wish->address && pointer != wish->address) {
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
			atomic_store_explicit(&useless, true, memory_order_relaxed);
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

/* If the context in which the memory was registered is gone, only the mapping is left to undo. */
static cu_result unmap_file(const struct driver *driver, const struct vmm_mapping *mapping)
{
	void *address = (void *)(uintptr_t)mapping->pointer;
	cu_result result = driver->cuMemHostUnregister(address);

	if ((int)result == NOT_REGISTERED || result == CU_INVALID_CONTEXT ||
	    result == CU_CONTEXT_IS_DESTROYED)
		result = CU_OK;
	munmap(address, mapping->size);
	held_drop(mapping->held);
	return result;
}

cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping)
{
	cu_result unmapped, freed, released;

	if (mapping->file)
		return unmap_file(driver, mapping);
	unmapped = driver->cuMemUnmap(mapping->pointer, mapping->size);
	freed = driver->cuMemAddressFree(mapping->pointer, mapping->size);
	released = driver->cuMemRelease(mapping->handle);
	held_drop(mapping->held);
	if (unmapped != CU_OK)
		return unmapped;
	return freed != CU_OK ? freed : released;
}

/* The host's NUMA node nearest to the device; -1: the driver makes no memory there. */
static int find_node(const struct driver *driver, cu_device device)
{
	if (!driver_attribute(driver, device, DEVICE_HOST_NUMA_VMM, 0))
		return -1;
	return driver_attribute(driver, device, DEVICE_HOST_NUMA_ID, -1);
}

/* Make and map memory of a device, or of a NUMA node of the host. */
static cu_result make_at(const struct driver *driver, uint64_t size, cu_device device,
			 cu_mem_location where, struct vmm_mapping *out_mapping,
			 const char **out_call)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = where,
	};
	struct vmm_mapping mapping = {.host = where.type == VMM_LOCATION_HOST};
	size_t granule = 0;
	cu_result result = driver->cuMemGetAllocationGranularity(
	    &granule, &prop, (cu_granularity_flags)CU_GRANULARITY_MINIMUM);

	*out_call = "cuMemGetAllocationGranularity";
	if (result != CU_OK)
		return result;
	if (size > UINT64_MAX - granule)
		return CU_INVALID_VALUE;
	mapping.size = (size + granule - 1) / granule * granule;
	*out_call = "cuMemCreate";
	result = driver->cuMemCreate(&mapping.handle, mapping.size, &prop, 0);
	if (result == CU_OK)
		result = place(driver, &mapping, device, NULL, out_call);
	if (result == CU_OK)
		*out_mapping = mapping;
	return result;
}

bool vmm_host_is_file(int fd, uint64_t size)
{
	int error = errno, seals = fcntl(fd, F_GET_SEALS);
	struct stat is;
	bool good = seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &is) &&
		    (uint64_t)is.st_size == size;

	errno = error;
	return good;
}

void *vmm_host_map_file(int fd, uint64_t size, uint64_t address, bool read_only)
{
	void *wanted = (void *)(uintptr_t)address, *got;

	/* Older kernels would take an unaligned address as a hint. */
	if (address % (uint64_t)sysconf(_SC_PAGESIZE)) {
		errno = EINVAL;
		return NULL;
	}
	got = mmap(wanted, size, PROT_READ | (read_only ? 0 : PROT_WRITE),
		   MAP_SHARED | (wanted ? MAP_FIXED_NOREPLACE : 0), fd, 0);
	if (got == MAP_FAILED)
		return NULL;
	if (wanted && got != wanted) { /* before Linux 4.17, which ignores MAP_FIXED_NOREPLACE */
		munmap(got, size);
		errno = EEXIST;
		return NULL;
	}
	madvise(got, size, MADV_DONTFORK);
	return got;
}

/* Register the memory, so that the GPUs reach it at the CPU's address. */
static cu_result enrol(const struct driver *driver, cu_device device, void *address, uint64_t size,
		       bool read_only, const char **out_call)
{
	unsigned int flags = CU_HOST_REGISTER_PORTABLE;

	*out_call = "cuMemHostRegister";
	if (!driver_attribute(driver, device,
			      (cu_device_attribute)CU_DEVICE_HOST_POINTER_REGISTERED, 0)) {
		*out_call = "CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM";
		return CU_NOT_SUPPORTED;
	}
	if (read_only)
		flags |= CU_HOST_REGISTER_READ_ONLY;
	return driver->cuMemHostRegister_v2(address, size, flags);
}

/* Map the file at an address that is probably free in other processes too. If none of the tries
 * succeeds, the kernel chooses the address. */
static void *map_own_file(int fd, uint64_t size)
{
	void *address = NULL;
	uint64_t wanted;

	for (int i = 0; !address && i < RANGE_TRIES && (wanted = range_pick(size)); i++)
		address = vmm_host_map_file(fd, size, wanted, false);
	return address ? address : vmm_host_map_file(fd, size, 0, false);
}

/* Returns a new memfd whose memory is allocated and whose size is sealed; -1: failed. */
static int new_file(uint64_t size)
{
	_cleanup_close_ int fd = memfd_create("gpushare", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int done;

	if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) ||
	    fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))
		return -1;
	done = fd;
	fd = -1;
	return done;
}

static cu_result make_file(const struct driver *driver, cu_device device,
			   struct vmm_mapping *mapping, const char **out_call)
{
	_cleanup_close_ int fd = -1;
	cu_result result;
	void *address;

	mapping->size = (mapping->size + BLOCK - 1) / BLOCK * BLOCK;
	*out_call = "memfd_create";
	fd = new_file(mapping->size);
	if (fd < 0)
		return CU_OUT_OF_MEMORY;
	*out_call = "mmap";
	address = map_own_file(fd, mapping->size);
	if (!address)
		return CU_OUT_OF_MEMORY;
	result = enrol(driver, device, address, mapping->size, false, out_call);
	if (result == CU_OK) {
		mapping->pointer = (uintptr_t)address;
		mapping->file = true;
		mapping->held = held_keep(fd);
		if (mapping->held)
			return CU_OK;
		*out_call = "dup";
		result = CU_OUT_OF_MEMORY;
		driver->cuMemHostUnregister(address);
	}
	munmap(address, mapping->size);
	return result;
}

static cu_result make_host(const struct driver *driver, uint64_t size, cu_device device,
			   struct vmm_mapping *out_mapping, const char **out_call)
{
	struct vmm_mapping mapping = {.size = size};
	const cu_mem_location node = {VMM_LOCATION_HOST, find_node(driver, device)};
	cu_result result = CU_NOT_SUPPORTED;

	*out_call = "cuMemCreate";
	if (size > LARGEST)
		return CU_OUT_OF_MEMORY;
	if (node.id >= 0)
		result = make_at(driver, size, device, node, &mapping, out_call);
	if (result != CU_OK && result != CU_OUT_OF_MEMORY)
		result = make_file(driver, device, &mapping, out_call);
	if (result == CU_OK)
		*out_mapping = mapping;
	return result;
}

cu_result vmm_make(const struct driver *driver, uint64_t size, cu_device device, bool host,
		   struct vmm_mapping *out_mapping, const char **out_call)
{
	const cu_mem_location there = {CU_LOCATION_DEVICE, device};

	return host ? make_host(driver, size, device, out_mapping, out_call)
		    : make_at(driver, size, device, there, out_mapping, out_call);
}

cu_result vmm_host_export(const struct driver *driver, const struct vmm_mapping *mapping,
			  int *out_fd)
{
	int fd;

	if (!mapping->held)
		return mapping->handle ? vmm_export(driver, mapping->handle, out_fd)
				       : CU_NOT_SUPPORTED;
	fd = held_open(mapping->held);
	if (fd < 0)
		return CU_INVALID_HANDLE;
	*out_fd = fd;
	return CU_OK;
}

static cu_result map_file(const struct driver *driver, int fd, cu_device device,
			  const struct vmm_wish *wish, struct vmm_mapping *mapping,
			  const char **out_call)
{
	void *address = vmm_host_map_file(fd, mapping->size, wish->address, wish->read_only);
	cu_result result;

	*out_call = "mmap";
	if (!address)
		return errno == EEXIST ? VMM_ADDRESS_TAKEN : CU_OUT_OF_MEMORY;
	result = enrol(driver, device, address, mapping->size, wish->read_only, out_call);
	if (result != CU_OK) {
		munmap(address, mapping->size);
		return result;
	}
	mapping->pointer = (uintptr_t)address;
	mapping->file = true;
	return CU_OK;
}

static cu_result import(const struct driver *driver, int fd, cu_device device,
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
	struct vmm_mapping mapping = {.size = size, .host = wish->host};
	int error = errno;
	cu_result result = wish->host && vmm_host_is_file(fd, size)
			       ? map_file(driver, fd, device, wish, &mapping, out_call)
			       : import(driver, fd, device, wish, &mapping, out_call);

	errno = error;
	if (result != CU_OK)
		return result;
	if (wish->hold)
		mapping.held = held_keep(fd);
	*out_mapping = mapping;
	return CU_OK;
}

void vmm_links_keep(struct vmm_links *links, const struct driver *driver, cu_device device)
{
	cu_mem_access peers[VMM_DEVICES_MAX];
	struct vmm_link *link;
	const char *call;

	if (device < 0 || device >= VMM_DEVICES_MAX)
		return;
	link = &links->of[device];
	if (atomic_load_explicit(&link->tried, memory_order_relaxed) ||
	    atomic_exchange(&link->tried, true) ||
	    !find_peers(driver, device, false, peers, CU_ACCESS_READ_WRITE))
		return;
	atomic_store(&link->kept,
		     vmm_make(driver, 1, device, false, &link->mapping, &call) == CU_OK);
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
