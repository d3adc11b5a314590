/* SPDX-License-Identifier: MIT */
/* Maps memory for the CPU through Vulkan, which is loaded at run time: imports the descriptor as
 * memory of a type that the CPU can see. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "base/fork_check.h"
#include "base/stay_loaded.h"
#include "core/device.h"
#include "map_backend.h"

#define GPUS_MAX 64

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

static struct {
	VkInstance instance; /* NULL: not started */
#define V(name) PFN_vk##name name;
	VULKAN_INSTANCE_CALLS(V)
#undef V
	size_t count;
	struct vulkan_device devices[GPUS_MAX];
} vulkan;

/* E(result, status, reason): what Vulkan's errors mean for a map of memory */
#define ERRORS(E) \
	E(OUT_OF_HOST_MEMORY, E_NO_MEMORY, "the host has no memory for the mapping") \
	E(OUT_OF_DEVICE_MEMORY, E_NO_MEMORY, \
	  "the GPU's window for the CPU (BAR1 in nvidia-smi -q) has no room for the mapping") \
	E(MEMORY_MAP_FAILED, E_NO_MEMORY, \
	  "the GPU's window for the CPU (BAR1 in nvidia-smi -q) has no room for the mapping") \
	E(TOO_MANY_OBJECTS, E_LIMIT, "Vulkan maps no more allocations; unmap some") \
	E(INVALID_EXTERNAL_HANDLE, E_NOT_SUPPORTED, \
	  "Vulkan does not import this kind of CUDA memory") \
	E(EXTENSION_NOT_PRESENT, E_NOT_SUPPORTED, \
	  "the GPU's Vulkan driver can't import memory (VK_KHR_external_memory_fd)") \
	E(FEATURE_NOT_PRESENT, E_NOT_SUPPORTED, "the GPU's Vulkan driver can't import memory") \
	E(INCOMPATIBLE_DRIVER, E_NOT_SUPPORTED, \
	  "no Vulkan driver was found; in a container the NVIDIA runtime provides it only if " \
	  "NVIDIA_DRIVER_CAPABILITIES contains 'graphics'") \
	E(INITIALIZATION_FAILED, E_NOT_SUPPORTED, "Vulkan does not start here") \
	E(LAYER_NOT_PRESENT, E_NOT_SUPPORTED, \
	  "a Vulkan layer that this machine requires is missing") \
	E(DEVICE_LOST, E_NOT_SUPPORTED, "the GPU was lost; nvidia-smi may say more")

/* Return a status, and set the reason, for the failure of `call` with `result`. */
static int vulkan_refuse(VkResult result, const char *call)
{
	switch (result) {
#define E(name, status, reason) \
	case VK_ERROR_##name: \
		return api_fail(GPUSHARE_##status, "%s: %s answered VK_ERROR_" #name, reason, call);
		ERRORS(E)
#undef E
	default:
		return api_fail(GPUSHARE_E_NOT_SUPPORTED, "%s answered %d", call, (int)result);
	}
}

/*
 * NVIDIA's Vulkan driver registers an exit handler when it makes a device. In a forked child this
 * handler tells the parent's threads to stop, through descriptors that the two share, and then
 * crashes. The parent then hangs forever at its own exit (measured, driver 580). Handlers run in
 * the reverse order of registration. So a handler of ours that is registered later ends such a
 * child before Vulkan's handler runs. Like exit() after the last handler, it closes the stdio
 * streams and ends the process.
 */
static void end_child(int code, void *unused)
{
	(void)unused;
	if (fork_check_is_mine())
		return;
	fcloseall();
	_exit(code);
}

/* From now on exit() in a forked child runs no exit handler that was registered before. */
static int guard_exit(void)
{
	const char *reason;

	if (!stay_loaded()) { /* an exit handler outlives dlclose(), so its code must stay */
		reason = dlerror();
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"gpushare's library can't be kept loaded, which Vulkan needs (%s)",
				reason ? reason : "no reason given");
	}
	if (on_exit(end_child, NULL))
		return api_fail(GPUSHARE_E_NO_MEMORY,
				"no memory for the exit handler that forked children need");
	return GPUSHARE_OK;
}

/* Threads that a Vulkan driver starts must not take the program's signals. */
static sigset_t signals_block(void)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
	sigset_t all, before;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	return before;
}

static int find_loader(PFN_vkGetInstanceProcAddr *out_find)
{
	void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
	const char *reason;

	if (!library) {
		reason = dlerror();
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"the Vulkan loader, libvulkan.so.1, can't be loaded (%s); install "
				"it (Debian: libvulkan1)",
				reason ? reason : "no reason given");
	}
	*out_find = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
	if (*out_find)
		return GPUSHARE_OK;
	dlclose(library);
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"libvulkan.so.1 is no Vulkan loader: it has no vkGetInstanceProcAddr");
}

static PFN_vkVoidFunction need(PFN_vkVoidFunction found, const char *name, const char **out_missing)
{
	if (!found)
		*out_missing = name;
	return found;
}

static int fill_instance(PFN_vkGetInstanceProcAddr find, VkInstance instance)
{
	PFN_vkDestroyInstance destroy = (PFN_vkDestroyInstance)find(instance, "vkDestroyInstance");
	const char *missing = NULL;
	int status;

#define V(name) vulkan.name = (PFN_vk##name)need(find(instance, "vk" #name), "vk" #name, &missing);
	VULKAN_INSTANCE_CALLS(V)
#undef V
	status = missing ? api_fail(GPUSHARE_E_NOT_SUPPORTED, "the Vulkan loader is too old: no %s",
				    missing)
			 : guard_exit(); /* for a child forked while a device is made */
	if (status && destroy)
		destroy(instance, NULL);
	return status;
}

/* No layers and no window systems: Vulkan is used for memory only. */
static int start(void)
{
	static const VkApplicationInfo application = {
	    .sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
	    .pApplicationName = "gpushare",
	    .apiVersion = VK_API_VERSION_1_1,
	};
	static const VkInstanceCreateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
	    .pApplicationInfo = &application,
	};
	PFN_vkGetInstanceProcAddr find;
	PFN_vkCreateInstance create;
	VkInstance instance = NULL;
	VkResult result;
	int status = find_loader(&find);

	if (status)
		return status;
	create = (PFN_vkCreateInstance)find(NULL, "vkCreateInstance");
	result = create ? create(&info, NULL, &instance) : VK_ERROR_INCOMPATIBLE_DRIVER;
	if (result != VK_SUCCESS)
		return vulkan_refuse(result, "vkCreateInstance");
	status = fill_instance(find, instance);
	if (!status)
		vulkan.instance = instance;
	return status;
}

static bool has_uuid(VkPhysicalDevice physical, const unsigned char uuid[VK_UUID_SIZE])
{
	VkPhysicalDeviceIDProperties id = {.sType =
					       VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
	VkPhysicalDeviceProperties2 all = {
	    .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
	    .pNext = &id,
	};

	vulkan.GetPhysicalDeviceProperties2(physical, &all);
	return !memcmp(id.deviceUUID, uuid, VK_UUID_SIZE);
}

static int find_physical(const unsigned char uuid[VK_UUID_SIZE], VkPhysicalDevice *out_physical)
{
	VkPhysicalDevice all[GPUS_MAX];
	char text[DEVICE_UUID_TEXT];
	uint32_t count = GPUS_MAX;
	VkResult result = vulkan.EnumeratePhysicalDevices(vulkan.instance, &count, all);

	if (result != VK_SUCCESS && result != VK_INCOMPLETE)
		return vulkan_refuse(result, "vkEnumeratePhysicalDevices");
	for (uint32_t i = 0; i < count; i++) {
		if (has_uuid(all[i], uuid)) {
			*out_physical = all[i];
			return GPUSHARE_OK;
		}
	}
	device_uuid_text(uuid, text);
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"Vulkan shows %u device%s here, and the buffer's GPU, %s, is not among "
			"them; in a container the NVIDIA runtime provides its Vulkan driver only "
			"if NVIDIA_DRIVER_CAPABILITIES contains 'graphics'",
			count, count == 1 ? "" : "s", text);
}

/* Vulkan requires a queue in each device. The queue is not used, so any family will do. */
static VkResult create_device(VkPhysicalDevice physical, VkDevice *out_device)
{
	static const float priority = 1.0f;
	static const char *const extensions[] = {VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME};
	VkDeviceQueueCreateInfo queue = {
	    .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
	    .queueCount = 1,
	    .pQueuePriorities = &priority,
	};
	const VkDeviceCreateInfo info = {
	    .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
	    .queueCreateInfoCount = 1,
	    .pQueueCreateInfos = &queue,
	    .enabledExtensionCount = sizeof(extensions) / sizeof(*extensions),
	    .ppEnabledExtensionNames = extensions,
	};
	VkQueueFamilyProperties families[16];
	uint32_t count = 16;

	vulkan.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families);
	while (queue.queueFamilyIndex < count && !families[queue.queueFamilyIndex].queueCount)
		queue.queueFamilyIndex++;
	if (queue.queueFamilyIndex == count)
		return VK_ERROR_FEATURE_NOT_PRESENT;
	return vulkan.CreateDevice(physical, &info, NULL, out_device);
}

static int fill_device(struct vulkan_device *device)
{
	const char *missing = NULL;
	int status = guard_exit(); /* registered after the handlers of the new device */

#define V(name) \
	device->name = (PFN_vk##name)need(vulkan.GetDeviceProcAddr(device->device, "vk" #name), \
					  "vk" #name, &missing);
	VULKAN_DEVICE_CALLS(V)
#undef V
	if (!status && missing)
		status = api_fail(GPUSHARE_E_NOT_SUPPORTED, "the GPU's Vulkan driver has no %s",
				  missing);
	if (status && device->DestroyDevice)
		device->DestroyDevice(device->device, NULL);
	return status;
}

static int open_device(const unsigned char uuid[VK_UUID_SIZE], struct vulkan_device *device)
{
	VkPhysicalDevice physical = NULL;
	VkResult result;
	int status = vulkan.instance ? GPUSHARE_OK : start();

	if (!status)
		status = find_physical(uuid, &physical);
	if (status)
		return status;
	result = create_device(physical, &device->device);
	if (result != VK_SUCCESS)
		return vulkan_refuse(result, "vkCreateDevice");
	vulkan.GetPhysicalDeviceMemoryProperties(physical, &device->memory);
	memcpy(device->uuid, uuid, VK_UUID_SIZE);
	return fill_device(device);
}

/* The Vulkan device of GPU `uuid`, made by the first call. It stays until the process ends, as the
 * Vulkan instance does. Callers must hold a lock. */
static int vulkan_device(const unsigned char uuid[VK_UUID_SIZE],
			 const struct vulkan_device **out_device)
{
	struct vulkan_device fresh = {.device = NULL};
	sigset_t before;
	int status;

	for (size_t i = 0; i < vulkan.count; i++) {
		if (!memcmp(vulkan.devices[i].uuid, uuid, VK_UUID_SIZE)) {
			*out_device = &vulkan.devices[i];
			return GPUSHARE_OK;
		}
	}
	if (vulkan.count == GPUS_MAX)
		return api_fail(GPUSHARE_E_LIMIT,
				"this process already maps memory of %d GPUs, which is the limit",
				GPUS_MAX);
	before = signals_block();
	status = open_device(uuid, &fresh);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (status)
		return status;
	vulkan.devices[vulkan.count] = fresh;
	*out_device = &vulkan.devices[vulkan.count++];
	return GPUSHARE_OK;
}

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
