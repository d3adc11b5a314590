/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_VULKAN_H
#define GPUSHARE_SHIM_MAP_VULKAN_H
/* Vulkan, loaded at run time and used only to import memory: its calls, and one device per GPU. */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "map_backend.h"

/* V(name): calls of the instance, then calls of a device */
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
	uint32_t proven; /* a bit for each memory type that vulkan_prove() has proven */
#define V(name) PFN_vk##name name;
	VULKAN_DEVICE_CALLS(V)
#undef V
};

/* map_vulkan_start.c: the device of that GPU. The first call makes it; it stays for the
 * process's life, like the instance. One caller at a time. */
int vulkan_device(const unsigned char uuid[VK_UUID_SIZE], const struct vulkan_device **out_device);
void vulkan_set_proven(const struct vulkan_device *device, uint32_t type);

/* map_vulkan_exit.c: from now on exit() in a forked child runs no exit handler that was
 * registered before, such as Vulkan's. */
int vulkan_guard_exit(void);

/* map_vulkan_error.c: the status and the reason for `result` of `call`. */
int vulkan_refuse(VkResult result, const char *call);

/* map_vulkan_memory.c */
struct vulkan_memory {
	VkDeviceMemory memory;
	void *address; /* of the whole memory */
};
/* Map the memory of `fd`, which stays the caller's. */
int vulkan_import(const struct vulkan_device *device, uint32_t type, int fd, uint64_t size,
		  struct vulkan_memory *out_memory);
void vulkan_free(const struct vulkan_device *device, VkDeviceMemory memory);
/* For a `type` that is not coherent: flush a part of it to the GPU, or invalidate it. */
int vulkan_sync(const struct vulkan_device *device, VkDeviceMemory memory, uint64_t size,
		uint64_t offset, uint64_t length, bool flush);
/* Do both sides see what is stored in memory that is imported by descriptor? Tried on memory of
 * our own, so that no user's data is touched and no CUDA call is made. Not tried if none can be
 * made, as on a full GPU. */
int vulkan_prove(const struct vulkan_device *device, uint32_t type);

#endif
