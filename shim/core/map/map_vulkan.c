/* SPDX-License-Identifier: MIT */
/* Maps through Vulkan: imports the descriptor as memory of a type that the CPU can see. */
#include "map_vulkan.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* Non-coherent types are left out: they would need flushes, and no GPU of NVIDIA has such a
 * type. */
static bool type_suits(const struct vulkan_device *device, uint32_t type)
{
	const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
					     VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
					     VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

	return (device->memory.memoryTypes[type].propertyFlags & wanted) == wanted;
}

/* After a success Vulkan owns the descriptor and closes it. */
static int import(const struct vulkan_device *device, uint32_t type,
		  const struct map_source *source, VkDeviceMemory *out_memory)
{
	VkImportMemoryFdInfoKHR from = {
	    .sType = VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR,
	    .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT,
	    .fd = fcntl(source->fd, F_DUPFD_CLOEXEC, 0),
	};
	const VkMemoryAllocateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
	    .pNext = &from,
	    .allocationSize = source->size,
	    .memoryTypeIndex = type,
	};
	VkResult result;

	if (from.fd < 0)
		return api_fail(GPUSHARE_E_LIMIT,
				"no file descriptor is left (%s); see 'ulimit -n'",
				strerror(errno));
	result = device->AllocateMemory(device->device, &info, NULL, out_memory);
	if (result == VK_SUCCESS)
		return GPUSHARE_OK;
	close(from.fd);
	return vulkan_refuse(result, "vkAllocateMemory");
}

static int open_as(const struct vulkan_device *device, uint32_t type,
		   const struct map_source *source, struct map_memory *memory)
{
	VkMemoryPropertyFlags flags = device->memory.memoryTypes[type].propertyFlags;
	VkDeviceMemory imported;
	VkResult result;
	int status = import(device, type, source, &imported);

	if (status)
		return status;
	result = device->MapMemory(device->device, imported, 0, VK_WHOLE_SIZE, 0, &memory->address);
	if (result != VK_SUCCESS) {
		device->FreeMemory(device->device, imported, NULL);
		return vulkan_refuse(result, "vkMapMemory");
	}
	memory->caching =
	    flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? GPUSHARE_CACHED : GPUSHARE_WRITE_COMBINED;
	memory->owner = device;
	memory->handle = (uint64_t)imported;
	return GPUSHARE_OK;
}

/* Vulkan may have several memory types that suit, and nothing tells which of them CUDA used: take
 * the first that Vulkan accepts. */
static int vulkan_open(const struct map_source *source, struct map_memory *memory)
{
	const struct vulkan_device *device;
	int status = vulkan_device(source->device_uuid, &device), tried = 0;

	if (status)
		return status;
	for (uint32_t type = 0; type < device->memory.memoryTypeCount; type++) {
		if (!type_suits(device, type))
			continue;
		status = open_as(device, type, source, memory);
		if (!status)
			return status;
		tried++;
	}
	if (tried)
		return status;
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"the GPU shows the CPU none of its memory coherently: its window for that "
			"(BAR) is too small, or resizable BAR is off in the machine's set-up");
}

static void vulkan_close(const struct map_memory *memory)
{
	const struct vulkan_device *device = memory->owner;
	VkDeviceMemory imported = (VkDeviceMemory)memory->handle;

	device->UnmapMemory(device->device, imported);
	device->FreeMemory(device->device, imported, NULL);
}

const struct map_backend map_vulkan = {
    .name = "vulkan",
    .open = vulkan_open,
    .close = vulkan_close,
};
