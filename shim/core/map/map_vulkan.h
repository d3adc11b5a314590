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
	V(UnmapMemory)

struct vulkan_device {
	unsigned char uuid[VK_UUID_SIZE];
	VkDevice device;
	VkPhysicalDeviceMemoryProperties memory;
#define V(name) PFN_vk##name name;
	VULKAN_DEVICE_CALLS(V)
#undef V
};

/* map_vulkan_start.c: the Vulkan device of GPU `uuid`, made by the first call. It stays until the
 * process ends, as the Vulkan instance does. Callers must hold a lock. */
int vulkan_device(const unsigned char uuid[VK_UUID_SIZE], const struct vulkan_device **out_device);

/* map_vulkan_exit.c: from now on exit() in a forked child runs no exit handler that was
 * registered before, such as Vulkan's. */
int vulkan_guard_exit(void);

/* map_vulkan_error.c: returns a status, and sets the reason, for the failure of `call` with
 * `result`. */
int vulkan_refuse(VkResult result, const char *call);

#endif
