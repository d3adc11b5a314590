/* SPDX-License-Identifier: MIT */
/* Checks of Vulkan, one of the two ways (the other: dma-buf) in which gpushare_map() maps a GPU's
 * memory for the CPU. */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

#include "aside.h"
#include "doctor.h"

#define AREA "vulkan"
#define LIBRARY "libvulkan.so.1"
#define PATIENCE_MS 30000
#define DEVICES_MAX 64

struct facts {
	bool loaded, instance;
	char words[DOCTOR_WORDS_MAX]; /* why the Vulkan loader can't be used */
	int result;
	uint32_t count;
	struct {
		char name[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
		unsigned char uuid[VK_UUID_SIZE];
	} devices[DEVICES_MAX];
};

static VkInstance start(PFN_vkGetInstanceProcAddr find, struct facts *facts)
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
	PFN_vkCreateInstance create = (PFN_vkCreateInstance)find(NULL, "vkCreateInstance");
	VkInstance instance = NULL;

	facts->result = create ? create(&info, NULL, &instance) : VK_ERROR_INCOMPATIBLE_DRIVER;
	return facts->result == VK_SUCCESS ? instance : NULL;
}

static void ask_devices(PFN_vkGetInstanceProcAddr find, VkInstance instance, struct facts *facts)
{
	PFN_vkEnumeratePhysicalDevices enumerate =
	    (PFN_vkEnumeratePhysicalDevices)find(instance, "vkEnumeratePhysicalDevices");
	PFN_vkGetPhysicalDeviceProperties2 describe =
	    (PFN_vkGetPhysicalDeviceProperties2)find(instance, "vkGetPhysicalDeviceProperties2");
	VkPhysicalDevice all[DEVICES_MAX];
	uint32_t count = DEVICES_MAX;

	if (!enumerate || !describe)
		return;
	facts->result = enumerate(instance, &count, all);
	if (facts->result != VK_SUCCESS && facts->result != VK_INCOMPLETE)
		return;
	facts->instance = true;
	facts->count = count;
	for (uint32_t i = 0; i < count; i++) {
		VkPhysicalDeviceIDProperties id = {
		    .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
		VkPhysicalDeviceProperties2 properties = {
		    .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};

		describe(all[i], &properties);
		memcpy(facts->devices[i].uuid, id.deviceUUID, VK_UUID_SIZE);
		snprintf(facts->devices[i].name, sizeof(facts->devices[i].name), "%s",
			 properties.properties.deviceName);
	}
}

/* Runs in the child process of aside_do(). */
static void ask(void *room)
{
	struct facts *facts = room;
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	PFN_vkGetInstanceProcAddr find;
	VkInstance instance;

	find = library ? (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr") : NULL;
	facts->loaded = find != NULL;
	if (!find) {
		const char *why = library ? "it has no vkGetInstanceProcAddr" : dlerror();

		snprintf(facts->words, sizeof(facts->words), "%s", why);
		return;
	}
	instance = start(find, facts);
	if (instance)
		ask_devices(find, instance, facts);
}

static int find_device(const struct facts *facts, const unsigned char uuid[VK_UUID_SIZE])
{
	for (uint32_t i = 0; i < facts->count; i++)
		if (!memcmp(facts->devices[i].uuid, uuid, VK_UUID_SIZE))
			return (int)i;
	return -1;
}

static void say_gpus(const struct facts *facts, struct doctor_found *found)
{
	for (int i = 0; i < found->gpus && i < DOCTOR_GPUS_MAX; i++) {
		int at = find_device(facts, found->driver->gpus[i].uuid);

		if (at >= 0) {
			found->mapped++;
			doctor_ok(AREA, "GPU %d is Vulkan's device %d%s%s", i, at,
				  *facts->devices[at].name ? ", " : "", facts->devices[at].name);
		} else {
			doctor_warn(AREA,
				    "in a container, add 'graphics' to NVIDIA_DRIVER_CAPABILITIES; "
				    "else install the driver's Vulkan part (nvidia_icd.json)",
				    "GPU %d is not among the %u devices that Vulkan shows", i,
				    (unsigned int)facts->count);
		}
	}
	if (!found->gpus)
		doctor_ok(AREA, "Vulkan starts, and shows %u device%s", (unsigned int)facts->count,
			  facts->count == 1 ? "" : "s");
}

void doctor_vulkan(struct doctor_found *found)
{
	struct facts *facts = aside_room(sizeof(*facts));
	int number = 0;
	enum aside_end end = facts ? aside_do(ask, facts, PATIENCE_MS, &number) : ASIDE_FAILED;

	if (end == ASIDE_HUNG || end == ASIDE_CRASHED)
		doctor_warn(AREA, "see whether vulkaninfo works",
			    "Vulkan %s during this check (signal %d)",
			    end == ASIDE_HUNG ? "hangs" : "crashes", number);
	else if (end == ASIDE_FAILED)
		doctor_warn(AREA, "see 'ulimit -u'",
			    "no process can be created for the check of Vulkan");
	else if (!facts->loaded)
		doctor_warn(AREA, "install the Vulkan loader, in Debian libvulkan1",
			    "the Vulkan loader can't be used: %s", facts->words);
	else if (!facts->instance)
		doctor_warn(
		    AREA,
		    "install the driver's Vulkan part (nvidia_icd.json); in a container, add "
		    "'graphics' to NVIDIA_DRIVER_CAPABILITIES",
		    "Vulkan does not start (VkResult %d)", facts->result);
	else
		say_gpus(facts, found);
}
