/* SPDX-License-Identifier: MIT */
#include "vmm_host.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/client_held.h"

#define BLOCK ((uint64_t)2 << 20)   /* the size of a memfd is a multiple of this */
#define LARGEST ((uint64_t)1 << 46) /* half of a 47-bit address space */
#define RANGE_TRIES 3
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

/* Values of CUDA 12.2. Older toolkits don't know them and older drivers refuse them. */
#define DEVICE_HOST_NUMA_ID ((cu_device_attribute)134)
#define DEVICE_HOST_NUMA_VMM ((cu_device_attribute)141)
/* the result of unregistering memory whose context is destroyed */
#define NOT_REGISTERED 713

static int device_is(const struct driver *driver, cu_device device, cu_device_attribute attribute,
		     int without)
{
	int value = without;

	if (driver->cuDeviceGetAttribute(&value, attribute, device) != CU_OK)
		return without;
	return value;
}

/* The host's NUMA node nearest to the device; -1: the driver makes no memory there. */
static int find_node(const struct driver *driver, cu_device device)
{
	if (!device_is(driver, device, DEVICE_HOST_NUMA_VMM, 0))
		return -1;
	return device_is(driver, device, DEVICE_HOST_NUMA_ID, -1);
}

static cu_result make_at_node(const struct driver *driver, cu_device device, int node,
			      uint64_t size, struct vmm_mapping *out_mapping, const char **out_call)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = VMM_LOCATION_HOST, .id = node},
	};

	return vmm_make_of(driver, size, device, &prop, out_mapping, out_call);
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

	if (address % (uint64_t)sysconf(_SC_PAGESIZE)) { /* older kernels would take it as a hint */
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
	if (!device_is(driver, device, (cu_device_attribute)CU_DEVICE_HOST_POINTER_REGISTERED, 0)) {
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

cu_result vmm_host_make(const struct driver *driver, uint64_t size, cu_device device,
			struct vmm_mapping *out_mapping, const char **out_call)
{
	struct vmm_mapping mapping = {.size = size};
	int node = find_node(driver, device);
	cu_result result = CU_NOT_SUPPORTED;

	*out_call = "cuMemCreate";
	if (size > LARGEST)
		return CU_OUT_OF_MEMORY;
	if (node >= 0)
		result = make_at_node(driver, device, node, size, &mapping, out_call);
	if (result != CU_OK && result != CU_OUT_OF_MEMORY)
		result = make_file(driver, device, &mapping, out_call);
	if (result == CU_OK)
		*out_mapping = mapping;
	return result;
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

cu_result vmm_host_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		       const struct vmm_wish *wish, struct vmm_mapping *out_mapping,
		       const char **out_call)
{
	const struct vmm_wish there = {
	    .address = wish->address, .must = true, .read_only = wish->read_only};
	struct vmm_mapping mapping = {.size = size, .host = true};
	int error = errno;
	cu_result result = vmm_host_is_file(fd, size)
			       ? map_file(driver, fd, device, wish, &mapping, out_call)
			       : vmm_import(driver, fd, device, &there, &mapping, out_call);

	errno = error;
	if (result != CU_OK)
		return result;
	if (wish->hold)
		mapping.held = held_keep(fd);
	*out_mapping = mapping;
	return CU_OK;
}

/* If the context in which the memory was registered is gone, only the mapping is left to undo. */
cu_result vmm_host_unmap_file(const struct driver *driver, const struct vmm_mapping *mapping)
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
