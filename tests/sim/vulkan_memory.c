/* SPDX-License-Identifier: MIT */
/*
 * The simulated Vulkan's memory: memfds of the simulated driver, or its own in the same format.
 * Non-coherent memory is mapped as a copy: a flush writes the copy to the memory, an invalidate
 * reads it back.
 */
#include <sys/stat.h>

#include "driver_sim.h"
#include "vulkan_sim.h"

struct VkDeviceMemory_T {
	int pid;
	VkDevice device;
	VkMemoryPropertyFlags flags;
	uint64_t size;
	int fd;
	bool exportable;
	char *mapped; /* NULL: not mapped */
	char *shadow; /* non-coherent: same bytes as `mapped`, always writable */
	char *truth;
};

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void count(VkDevice device, int by)
{
	pthread_mutex_lock(&counting);
	device->memories += (unsigned int)by;
	pthread_mutex_unlock(&counting);
}

static int memfd_of(uint64_t size)
{
	int fd = memfd_create("gpushare-sim-vulkan", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, (off_t)size) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static const void *chained(const void *info, VkStructureType type)
{
	const VkBaseInStructure *at = info;

	while (at && at->sType != type)
		at = at->pNext;
	return at;
}

/* Return true if the simulated driver's cuMemCreate or make() created `fd`, with that size and on
 * that device. */
static bool recognise(int fd, uint64_t size, int physical)
{
	struct control control;
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_size == (off_t)(size + SIM_CONTROL) &&
	       pread(fd, &control, sizeof(control), (off_t)size) == (ssize_t)sizeof(control) &&
	       control.magic == CONTROL_OBJECT && control.size == size &&
	       control.physical == physical;
}

static VkResult take(VkDeviceMemory memory, const VkImportMemoryFdInfoKHR *from)
{
	if (from->handleType != VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT)
		vulkan_misused("memory of CUDA's comes as an opaque descriptor");
	if (fcntl(from->fd, F_GETFD) < 0)
		vulkan_misused("descriptor %d is not open", from->fd);
	if (!recognise(from->fd, memory->size, memory->device->physical))
		return VK_ERROR_INVALID_EXTERNAL_HANDLE;
	memory->fd = from->fd; /* a successful import owns it */
	return VK_SUCCESS;
}

static VkResult make(VkDeviceMemory memory)
{
	struct control control = {
	    .magic = CONTROL_OBJECT,
	    .size = memory->size,
	    .physical = memory->device->physical,
	};

	memory->fd = memfd_of(memory->size + SIM_CONTROL);
	if (memory->fd < 0)
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	if (pwrite(memory->fd, &control, sizeof(control), (off_t)memory->size) ==
	    (ssize_t)sizeof(control))
		return VK_SUCCESS;
	close(memory->fd);
	return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VkResult allocate(VkDevice device, const VkMemoryAllocateInfo *info, VkDeviceMemory *out)
{
	const VkImportMemoryFdInfoKHR *from =
	    chained(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
	const VkExportMemoryAllocateInfo *may_leave =
	    chained(info->pNext, VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO);
	VkPhysicalDeviceMemoryProperties types;
	VkDeviceMemory memory;
	VkResult result = vulkan_fault(VULKAN_AllocateMemory);

	vulkan_types(&types);
	if (info->sType != VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO || !info->allocationSize ||
	    info->memoryTypeIndex >= types.memoryTypeCount)
		vulkan_misused("memory of size %llu, type %u",
			       (unsigned long long)info->allocationSize, info->memoryTypeIndex);
	memory = result == VK_SUCCESS ? calloc(1, sizeof(*memory)) : NULL;
	if (!memory)
		return result;
	memory->pid = getpid();
	memory->device = device;
	memory->flags = types.memoryTypes[info->memoryTypeIndex].propertyFlags;
	memory->size = info->allocationSize;
	memory->exportable = may_leave != NULL;
	result = from ? take(memory, from) : make(memory);
	if (result == VK_SUCCESS) {
		count(device, 1);
		*out = memory;
	} else {
		free(memory);
	}
	return result;
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_AllocateMemory(VkDevice device,
						     const VkMemoryAllocateInfo *info,
						     const VkAllocationCallbacks *allocator,
						     VkDeviceMemory *out_memory)
{
	vulkan_check(device, "device");
	return vulkan_log(VULKAN_AllocateMemory, allocate(device, info, out_memory),
			  info->allocationSize);
}

VKAPI_ATTR void VKAPI_CALL vulkan_FreeMemory(VkDevice device, VkDeviceMemory memory,
					     const VkAllocationCallbacks *allocator)
{
	vulkan_check(device, "device");
	vulkan_check(memory, "memory");
	if (memory->mapped)
		vulkan_misused("memory was freed while it was mapped");
	close(memory->fd);
	count(device, -1);
	vulkan_log(VULKAN_FreeMemory, VK_SUCCESS, memory->size);
	memory->pid = 0;
	free(memory);
}

static char *map_of(int fd, uint64_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Map the copy twice: the application may make its own mapping read-only. */
static bool map_copy(VkDeviceMemory memory)
{
	int fd = memfd_of(memory->size);

	memory->mapped = fd < 0 ? NULL : map_of(fd, memory->size);
	memory->shadow = fd < 0 ? NULL : map_of(fd, memory->size);
	if (fd >= 0)
		close(fd);
	memory->truth = map_of(memory->fd, memory->size);
	return memory->mapped && memory->shadow && memory->truth;
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_MapMemory(VkDevice device, VkDeviceMemory memory,
						VkDeviceSize offset, VkDeviceSize size,
						VkMemoryMapFlags flags, void **out)
{
	VkResult result = vulkan_fault(VULKAN_MapMemory);

	vulkan_check(device, "device");
	vulkan_check(memory, "memory");
	if (memory->mapped || offset || size != VK_WHOLE_SIZE || flags)
		vulkan_misused("all of a memory is mapped, and once");
	if (!(memory->flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT))
		vulkan_misused("memory was mapped that the host can't see");
	if (result != VK_SUCCESS)
		return result;
	if (memory->flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT && !vulkan_is("apart"))
		memory->mapped = map_of(memory->fd, memory->size);
	else if (!map_copy(memory))
		return VK_ERROR_MEMORY_MAP_FAILED;
	*out = memory->mapped;
	return vulkan_log(VULKAN_MapMemory,
			  memory->mapped ? VK_SUCCESS : VK_ERROR_MEMORY_MAP_FAILED, memory->size);
}

VKAPI_ATTR void VKAPI_CALL vulkan_UnmapMemory(VkDevice device, VkDeviceMemory memory)
{
	vulkan_check(device, "device");
	vulkan_check(memory, "memory");
	if (!memory->mapped)
		vulkan_misused("memory was unmapped that is not mapped");
	munmap(memory->mapped, memory->size);
	if (memory->shadow)
		munmap(memory->shadow, memory->size);
	if (memory->truth)
		munmap(memory->truth, memory->size);
	memory->mapped = memory->shadow = memory->truth = NULL;
}

static VkResult carry(VkDevice device, uint32_t ranges, const VkMappedMemoryRange *range,
		      bool flush)
{
	VkDeviceMemory memory = range->memory;
	uint64_t length = range->size == VK_WHOLE_SIZE ? memory->size - range->offset : range->size;

	vulkan_check(device, "device");
	vulkan_check(memory, "memory");
	if (ranges != 1 || range->sType != VK_STRUCTURE_TYPE_MAPPED_MEMORY_RANGE ||
	    !memory->mapped || range->offset % SIM_ATOM || range->offset > memory->size ||
	    length > memory->size - range->offset ||
	    (range->size % SIM_ATOM && range->size != VK_WHOLE_SIZE &&
	     range->offset + length != memory->size))
		vulkan_misused("%llu bytes from %llu can't be flushed or invalidated",
			       (unsigned long long)range->size, (unsigned long long)range->offset);
	if (memory->shadow && !vulkan_is("apart"))
		memcpy((flush ? memory->truth : memory->shadow) + range->offset,
		       (flush ? memory->shadow : memory->truth) + range->offset, length);
	return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_FlushMappedMemoryRanges(VkDevice device, uint32_t ranges,
							      const VkMappedMemoryRange *range)
{
	VkResult result = vulkan_fault(VULKAN_FlushMappedMemoryRanges);

	return result == VK_SUCCESS ? carry(device, ranges, range, true) : result;
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_InvalidateMappedMemoryRanges(VkDevice device, uint32_t ranges,
								   const VkMappedMemoryRange *range)
{
	VkResult result = vulkan_fault(VULKAN_InvalidateMappedMemoryRanges);

	return result == VK_SUCCESS ? carry(device, ranges, range, false) : result;
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_GetMemoryFdKHR(VkDevice device,
						     const VkMemoryGetFdInfoKHR *info, int *out_fd)
{
	VkResult result = vulkan_fault(VULKAN_GetMemoryFdKHR);
	int fd;

	vulkan_check(device, "device");
	if (info->sType != VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR ||
	    info->handleType != VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT ||
	    !info->memory->exportable)
		vulkan_misused("memory that may not leave was asked for its descriptor");
	if (result != VK_SUCCESS)
		return result;
	fd = fcntl(info->memory->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return VK_ERROR_TOO_MANY_OBJECTS;
	*out_fd = fd;
	return VK_SUCCESS;
}
