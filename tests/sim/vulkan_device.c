/* SPDX-License-Identifier: MIT */
/* The simulated Vulkan's instance and devices. It shows all devices of the machine, whatever
 * CUDA_VISIBLE_DEVICES says. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_machine.h"
#include "vulkan_sim.h"

#define MACHINE_MAX 64
#define DEVICE_VISIBLE (VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT)
#define COHERENT VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

static struct VkPhysicalDevice_T machine[MACHINE_MAX];

/* A real driver creates threads in vkCreateInstance and vkCreateDevice. They inherit the signal
 * mask. */
static void check_signals(void)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	if (!sigismember(&now, SIGTERM) || !sigismember(&now, SIGCHLD) ||
	    sigismember(&now, SIGSEGV))
		vulkan_misused("SIGTERM and SIGCHLD must be blocked, and SIGSEGV must not, "
			       "because its threads inherit the signal mask");
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_CreateInstance(const VkInstanceCreateInfo *info,
						     const VkAllocationCallbacks *allocator,
						     VkInstance *out_instance)
{
	VkResult result = vulkan_fault(VULKAN_CreateInstance);
	VkInstance instance;

	check_signals();
	if (info->sType != VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO || !info->pApplicationInfo ||
	    info->pApplicationInfo->sType != VK_STRUCTURE_TYPE_APPLICATION_INFO ||
	    info->pApplicationInfo->apiVersion < VK_API_VERSION_1_1)
		vulkan_misused("an instance of Vulkan 1.1 is needed");
	if (info->enabledLayerCount || info->enabledExtensionCount || allocator)
		vulkan_misused("neither layers nor instance extensions are needed");
	instance = result == VK_SUCCESS ? calloc(1, sizeof(*instance)) : NULL;
	if (instance) {
		instance->pid = getpid();
		*out_instance = instance;
	} else if (result == VK_SUCCESS) {
		result = VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	return vulkan_log(VULKAN_CreateInstance, result, 0);
}

VKAPI_ATTR void VKAPI_CALL vulkan_DestroyInstance(VkInstance instance,
						  const VkAllocationCallbacks *allocator)
{
	vulkan_check(instance, "instance");
	vulkan_log(VULKAN_DestroyInstance, VK_SUCCESS, 0);
	free(instance);
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_EnumeratePhysicalDevices(VkInstance instance, uint32_t *count,
							       VkPhysicalDevice *out)
{
	VkResult result = vulkan_fault(VULKAN_EnumeratePhysicalDevices);
	uint32_t there = (uint32_t)vulkan_machine();

	vulkan_check(instance, "instance");
	if (result != VK_SUCCESS)
		return result;
	if (!out) {
		*count = there;
		return VK_SUCCESS;
	}
	if (*count < there)
		result = VK_INCOMPLETE;
	else
		*count = there;
	for (uint32_t i = 0; i < *count; i++) {
		machine[i] = (struct VkPhysicalDevice_T){instance->pid, (int)i};
		out[i] = &machine[i];
	}
	return result;
}

VKAPI_ATTR void VKAPI_CALL vulkan_GetPhysicalDeviceProperties2(VkPhysicalDevice physical,
							       VkPhysicalDeviceProperties2 *out)
{
	vulkan_check(physical, "physical device");
	if (out->sType != VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2)
		vulkan_misused("properties with a wrong sType");
	for (VkBaseOutStructure *next = out->pNext; next; next = next->pNext)
		if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES)
			sim_uuid(physical->physical,
				 ((VkPhysicalDeviceIDProperties *)(void *)next)->deviceUUID);
}

/* Memory types as on an H200. The fifth is device memory that the host can map: the library needs
 * such a type. */
VKAPI_ATTR void VKAPI_CALL vulkan_GetPhysicalDeviceMemoryProperties(
    VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out)
{
	vulkan_check(physical, "physical device");
	vulkan_types(out);
}

void vulkan_types(VkPhysicalDeviceMemoryProperties *out)
{
	static const VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
	VkMemoryPropertyFlags visible = DEVICE_VISIBLE | COHERENT;

	memset(out, 0, sizeof(*out));
	if (vulkan_is("noncoherent") || vulkan_is("both"))
		visible = DEVICE_VISIBLE | CACHED;
	out->memoryTypes[1].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
	out->memoryTypes[2].propertyFlags = host | COHERENT;
	out->memoryTypes[3].propertyFlags = host | COHERENT | CACHED;
	out->memoryTypes[4].propertyFlags = visible;
	out->memoryTypes[5].propertyFlags = DEVICE_VISIBLE | COHERENT | CACHED;
	out->memoryTypeCount = vulkan_is("small-bar") ? 4 : vulkan_is("both") ? 6 : 5;
	out->memoryHeapCount = 2;
}

VKAPI_ATTR void VKAPI_CALL vulkan_GetPhysicalDeviceQueueFamilyProperties(
    VkPhysicalDevice physical, uint32_t *count, VkQueueFamilyProperties *out)
{
	vulkan_check(physical, "physical device");
	if (vulkan_is("no-queues"))
		*count = 0;
	else if (!out || *count > 2)
		*count = 2;
	for (uint32_t i = 0; out && i < *count; i++)
		out[i] = (VkQueueFamilyProperties){.queueCount = i}; /* the first has no queue */
}

VKAPI_ATTR VkResult VKAPI_CALL vulkan_CreateDevice(VkPhysicalDevice physical,
						   const VkDeviceCreateInfo *info,
						   const VkAllocationCallbacks *allocator,
						   VkDevice *out_device)
{
	VkResult result = vulkan_fault(VULKAN_CreateDevice);
	VkDevice device;

	vulkan_check(physical, "physical device");
	check_signals();
	if (info->sType != VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO ||
	    info->queueCreateInfoCount != 1 || info->pQueueCreateInfos[0].queueFamilyIndex != 1 ||
	    info->pQueueCreateInfos[0].queueCount != 1 ||
	    !info->pQueueCreateInfos[0].pQueuePriorities)
		vulkan_misused("a device needs one queue, of a family that has queues");
	if (info->enabledExtensionCount != 1 ||
	    strcmp(info->ppEnabledExtensionNames[0], VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME))
		vulkan_misused("a device without " VK_KHR_EXTERNAL_MEMORY_FD_EXTENSION_NAME);
	if (result == VK_SUCCESS && vulkan_is("no-import"))
		result = VK_ERROR_EXTENSION_NOT_PRESENT;
	device = result == VK_SUCCESS ? calloc(1, sizeof(*device)) : NULL;
	if (device) {
		device->pid = getpid();
		device->physical = physical->physical;
		vulkan_start_threads();
		*out_device = device;
	}
	return vulkan_log(VULKAN_CreateDevice, result, 0);
}

VKAPI_ATTR void VKAPI_CALL vulkan_DestroyDevice(VkDevice device,
						const VkAllocationCallbacks *allocator)
{
	vulkan_check(device, "device");
	if (device->memories)
		vulkan_misused("a device was destroyed before its memory");
	vulkan_await_threads();
	vulkan_log(VULKAN_DestroyDevice, VK_SUCCESS, 0);
	free(device);
}
