/* SPDX-License-Identifier: MIT */
#include "map_vulkan.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "core/device.h"

#define GPUS_MAX 64

static struct {
	VkInstance instance; /* NULL: not started */
#define V(name) PFN_vk##name name;
	VULKAN_INSTANCE_CALLS(V)
#undef V
	size_t count;
	struct vulkan_device devices[GPUS_MAX];
} vulkan;

/* A Vulkan driver's threads must not take the program's signals. */
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

static void signals_restore(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
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
			 : vulkan_guard_exit(); /* for a child forked while a device is made */
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
	int status = vulkan_guard_exit(); /* registered after the handlers of the new device */

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

int vulkan_device(const unsigned char uuid[VK_UUID_SIZE], const struct vulkan_device **out_device)
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
	signals_restore(&before);
	if (status)
		return status;
	vulkan.devices[vulkan.count] = fresh;
	*out_device = &vulkan.devices[vulkan.count++];
	return GPUSHARE_OK;
}
