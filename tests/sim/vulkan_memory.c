/* SPDX-License-Identifier: MIT */
/* The simulated Vulkan's memory: memfds of the simulated driver. */
#include <sys/stat.h>

#include "driver_sim.h"
#include "vulkan_sim.h"

struct VkDeviceMemory_T {
	int pid;
	VkDevice device;
	VkMemoryPropertyFlags flags;
	uint64_t size;
	int fd;
	char *mapped; /* NULL: not mapped */
};

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void count(VkDevice device, int by)
{
	pthread_mutex_lock(&counting);
	device->memories += (unsigned int)by;
	pthread_mutex_unlock(&counting);
}

static const void *chained(const void *info, VkStructureType type)
{
	const VkBaseInStructure *at = info;

	while (at && at->sType != type)
		at = at->pNext;
	return at;
}

/* Return true if the simulated driver's cuMemCreate created `fd`, with that size and on
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
	if (!from || from->handleType != VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT)
		vulkan_misused("memory must be imported from an opaque file descriptor");
	if (fcntl(from->fd, F_GETFD) < 0)
		vulkan_misused("descriptor %d is not open", from->fd);
	if (!recognise(from->fd, memory->size, memory->device->physical))
		return VK_ERROR_INVALID_EXTERNAL_HANDLE;
	memory->fd = from->fd; /* a successful import owns it */
	return VK_SUCCESS;
}

static VkResult allocate(VkDevice device, const VkMemoryAllocateInfo *info, VkDeviceMemory *out)
{
	const VkImportMemoryFdInfoKHR *from =
	    chained(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
	VkPhysicalDeviceMemoryProperties types;
	VkDeviceMemory memory;
	VkResult result = vulkan_fault(VULKAN_AllocateMemory);

	vulkan_types(&types);
	if (info->sType != VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO || !info->allocationSize ||
	    info->memoryTypeIndex >= types.memoryTypeCount)
		vulkan_misused("size %llu, type %u or sType of an allocation is wrong",
			       (unsigned long long)info->allocationSize, info->memoryTypeIndex);
	memory = result == VK_SUCCESS ? calloc(1, sizeof(*memory)) : NULL;
	if (!memory)
		return result;
	memory->pid = getpid();
	memory->device = device;
	memory->flags = types.memoryTypes[info->memoryTypeIndex].propertyFlags;
	memory->size = info->allocationSize;
	result = take(memory, from);
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

VKAPI_ATTR VkResult VKAPI_CALL vulkan_MapMemory(VkDevice device, VkDeviceMemory memory,
						VkDeviceSize offset, VkDeviceSize size,
						VkMemoryMapFlags flags, void **out)
{
	VkResult result = vulkan_fault(VULKAN_MapMemory);

	vulkan_check(device, "device");
	vulkan_check(memory, "memory");
	if (memory->mapped || offset || size != VK_WHOLE_SIZE || flags)
		vulkan_misused("memory must be mapped whole, and only once");
	if (!(memory->flags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT))
		vulkan_misused("memory was mapped that the host can't see");
	if (result != VK_SUCCESS)
		return result;
	memory->mapped = map_of(memory->fd, memory->size);
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
	memory->mapped = NULL;
}
