/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_VULKAN_SIM_H
#define GPUSHARE_TESTS_SIM_VULKAN_SIM_H
/*
 * What the files of the simulated Vulkan share: a loader and driver in one, as far as importing
 * memory goes, over the simulated driver's memfds. It is its own validation layer: what an
 * application may not do ends the process with a line that says so.
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
	V(UnmapMemory) V(FlushMappedMemoryRanges) V(InvalidateMappedMemoryRanges) V(GetMemoryFdKHR)
#define SIM_VULKAN_CALLS(V) \
	SIM_VULKAN_GLOBAL_CALLS(V) SIM_VULKAN_INSTANCE_CALLS(V) SIM_VULKAN_DEVICE_CALLS(V)

#define SIM_ATOM 64 /* nonCoherentAtomSize */

/* All below stays inside the library, whatever the compiler was told. */
#pragma GCC visibility push(hidden)

/* vulkan_call.c: settings and faults. */
enum vulkan_call {
#define V(name) VULKAN_##name,
	SIM_VULKAN_CALLS(V)
#undef V
	    VULKAN_CALL_COUNT
};

/* The words of GPUSHARE_SIM_VULKAN. */
bool vulkan_is(const char *word);
int vulkan_machine(void); /* how many devices it has */
/* A fault that is due, or VK_SUCCESS; to be asked first thing in every call that can fail. */
VkResult vulkan_fault(enum vulkan_call call);
VkResult vulkan_log(enum vulkan_call call, VkResult result, uint64_t size);
bool vulkan_lacks(const char *symbol);
__attribute__((format(printf, 1, 2), noreturn)) void vulkan_misused(const char *format, ...);
/* A live handle of this very process. */
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

/* vulkan_exit.c: with a device; and its end, which never comes where a forked child has stopped them. */
void vulkan_start_threads(void);
void vulkan_await_threads(void);

/* Each call as Vulkan declares it, so a wrong prototype does not compile. */
#define V(name) __typeof__(*(PFN_vk##name)NULL) vulkan_##name;
SIM_VULKAN_CALLS(V)
#undef V

#pragma GCC visibility pop

#endif
