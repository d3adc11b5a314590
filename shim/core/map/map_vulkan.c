/* SPDX-License-Identifier: MIT */
/* Maps through Vulkan: imports the descriptor as memory of a type that the CPU can see. */
#include "map_vulkan.h"

/* vulkan_open() tries coherent types first: they need no flush. */
static bool type_suits(const struct vulkan_device *device, uint32_t type, bool coherent)
{
	const VkMemoryPropertyFlags wanted =
	    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
	VkMemoryPropertyFlags flags = device->memory.memoryTypes[type].propertyFlags;

	return (flags & wanted) == wanted &&
	       !(flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT) == !coherent;
}

static int open_as(const struct vulkan_device *device, uint32_t type,
		   const struct map_source *source, struct map_memory *memory)
{
	VkMemoryPropertyFlags flags = device->memory.memoryTypes[type].propertyFlags;
	struct vulkan_memory imported;
	int status = vulkan_prove(device, type);

	if (!status)
		status = vulkan_import(device, type, source->fd, source->size, &imported);
	if (status)
		return status;
	memory->address = imported.address;
	memory->caching =
	    flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? GPUSHARE_CACHED : GPUSHARE_WRITE_COMBINED;
	memory->coherent = flags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	memory->atom_size = memory->coherent ? 1 : device->atom_size;
	memory->owner = device;
	memory->handle = (uint64_t)imported.memory;
	return GPUSHARE_OK;
}

/* Nothing says as which of several types the memory was made: take the first that Vulkan
 * accepts. */
static int vulkan_open(const struct map_source *source, struct map_memory *memory)
{
	const struct vulkan_device *device;
	int status = vulkan_device(source->device_uuid, &device), tried = 0;

	if (status)
		return status;
	for (int coherent = 1; coherent >= (source->coherent ? 1 : 0); coherent--) {
		for (uint32_t type = 0; type < device->memory.memoryTypeCount; type++) {
			if (!type_suits(device, type, coherent))
				continue;
			status = open_as(device, type, source, memory);
			if (!status)
				return status;
			tried++;
		}
	}
	if (tried)
		return status;
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"the GPU shows the CPU none of its memory%s: its window for that (BAR) is "
			"too small, or resizable BAR is off in the machine's set-up",
			source->coherent ? " coherently" : "");
}

static const struct vulkan_device *device_of(const struct map_memory *memory)
{
	return memory->owner;
}

static VkDeviceMemory memory_of(const struct map_memory *memory)
{
	return (VkDeviceMemory)memory->handle;
}

static void vulkan_close(const struct map_memory *memory)
{
	vulkan_free(device_of(memory), memory_of(memory));
}

static int vulkan_flush(const struct map_memory *memory, uint64_t offset, uint64_t length)
{
	return vulkan_sync(device_of(memory), memory_of(memory), memory->size, offset, length,
			   true);
}

static int vulkan_invalidate(const struct map_memory *memory, uint64_t offset, uint64_t length)
{
	return vulkan_sync(device_of(memory), memory_of(memory), memory->size, offset, length,
			   false);
}

const struct map_backend map_vulkan = {
    .name = "vulkan",
    .open = vulkan_open,
    .close = vulkan_close,
    .flush = vulkan_flush,
    .invalidate = vulkan_invalidate,
};
