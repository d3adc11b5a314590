/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_VULKAN_SIM_H
#define GPUSHARE_TESTS_SIM_VULKAN_SIM_H
/*
 * Shared declarations of the simulated Vulkan. It is loader and driver in one, limited to importing
 * memory, and works on the simulated driver's memfds. It also validates: an application error ends
 * the process with a message.
 */
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* V(name): found without an instance, with one, with a device */
#define SIM_VULKAN_GLOBAL_CALLS(V) V(CreateInstance)
#define SIM_VULKAN_INSTANCE_CALLS(V) \
	V(DestroyInstance) \
	V(EnumeratePhysicalDevices) \
	V(GetPhysicalDeviceProperties2) \
	V(GetPhysicalDeviceMemoryProperties) \
	V(GetPhysicalDeviceQueueFamilyProperties) V(CreateDevice) V(GetDeviceProcAddr)
#define SIM_VULKAN_DEVICE_CALLS(V) \
	V(DestroyDevice) \
	V(AllocateMemory) \
	V(FreeMemory) \
	V(MapMemory) \
	V(UnmapMemory)
#define SIM_VULKAN_CALLS(V) \
	SIM_VULKAN_GLOBAL_CALLS(V) SIM_VULKAN_INSTANCE_CALLS(V) SIM_VULKAN_DEVICE_CALLS(V)

/* The declarations below are hidden, whatever -fvisibility says. */
#pragma GCC visibility push(hidden)

/* vulkan_call.c: settings and faults. */
enum vulkan_call {
#define V(name) VULKAN_##name,
	SIM_VULKAN_CALLS(V)
#undef V
	    VULKAN_CALL_COUNT
};

/* Return true if GPUSHARE_SIM_VULKAN contains `word`. */
bool vulkan_is(const char *word);
int vulkan_machine(void); /* number of devices in the machine */
/* Return the injected fault that is due, or VK_SUCCESS. Every call that can fail must ask this
 * first. */
VkResult vulkan_fault(enum vulkan_call call);
VkResult vulkan_log(enum vulkan_call call, VkResult result, uint64_t size);
bool vulkan_lacks(const char *symbol);
__attribute__((format(printf, 1, 2), noreturn)) void vulkan_misused(const char *format, ...);
/* Abort unless `handle` is a live handle of this process. */
void vulkan_check(const void *handle, const char *what);

struct VkInstance_T {
	int pid;
};
struct VkPhysicalDevice_T {
	int pid, physical;
};
struct VkDevice_T {
	int pid, physical;
	unsigned int memories;
};

/* vulkan_device.c */
void vulkan_types(VkPhysicalDeviceMemoryProperties *out);

/* vulkan_exit.c: start the driver's threads with a device, and wait for them when the device ends.
 * That wait never returns if a forked child has stopped them. */
void vulkan_start_threads(void);
void vulkan_await_threads(void);

/* Each call as Vulkan declares it, so a wrong prototype does not compile. */
#define V(name) __typeof__(*(PFN_vk##name)NULL) vulkan_##name;
SIM_VULKAN_CALLS(V)
#undef V

#pragma GCC visibility pop

#endif
