/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_VULKAN_H
#define GPUSHARE_SHIM_MAP_VULKAN_H
/* Vulkan, found at run time, for nothing but importing memory: its calls, and one device a GPU. */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "map_backend.h"

/* V(name): from the instance, and from a device */
#define VULKAN_INSTANCE_CALLS(V) \
	V(DestroyInstance) \
	V(EnumeratePhysicalDevices) \
	V(GetPhysicalDeviceProperties2) \
	V(GetPhysicalDeviceMemoryProperties) \
	V(GetPhysicalDeviceQueueFamilyProperties) V(CreateDevice) V(GetDeviceProcAddr)
#define VULKAN_DEVICE_CALLS(V) \
	V(DestroyDevice) \
	V(AllocateMemory) \
	V(FreeMemory) \
	V(MapMemory) \
	V(UnmapMemory) V(FlushMappedMemoryRanges) V(InvalidateMappedMemoryRanges) V(GetMemoryFdKHR)

struct vulkan_device {
	unsigned char uuid[VK_UUID_SIZE];
	VkDevice device;
	VkPhysicalDeviceMemoryProperties memory;
	size_t atom_size;
	uint32_t proven; /* a bit for each of its memory types */
#define V(name) PFN_vk##name name;
	VULKAN_DEVICE_CALLS(V)
#undef V
};

/* map_vulkan_start.c: that GPU's, made at the first call and kept for the process, as is what it
 * takes. One caller at a time. */
int vulkan_device(const unsigned char uuid[VK_UUID_SIZE], const struct vulkan_device **out_device,
		  struct map_reason *why);
void vulkan_set_proven(const struct vulkan_device *device, uint32_t type);

/* map_vulkan_exit.c: from now on exit() in a forked child runs nothing that was registered before, as
 * what Vulkan has registered. */
int vulkan_guard_exit(struct map_reason *why);

/* map_vulkan_error.c: the status and the reason behind what `call` answered. */
int vulkan_refuse(struct map_reason *why, VkResult result, const char *call);

/* map_vulkan_memory.c */
struct vulkan_memory {
	VkDeviceMemory memory;
	void *address; /* of all of it */
};
/* Map what `fd` is of, which stays the caller's. */
int vulkan_import(const struct vulkan_device *device, uint32_t type, int fd, uint64_t size,
		  struct vulkan_memory *out_memory, struct map_reason *why);
void vulkan_free(const struct vulkan_device *device, VkDeviceMemory memory);
/* Where `type` is not coherent: a part of it to the GPU, or from there. */
int vulkan_sync(const struct vulkan_device *device, VkDeviceMemory memory, uint64_t size,
		uint64_t offset, uint64_t length, bool flush, struct map_reason *why);
/* Does memory that comes as a descriptor show what is stored, both ways? Tried on memory of our
 * own, so that nobody's data is touched and no CUDA call is made; not tried where none can be
 * made, as on a full GPU. */
int vulkan_prove(const struct vulkan_device *device, uint32_t type, struct map_reason *why);

#endif
