/* SPDX-License-Identifier: MIT */
/* Vulkan's start, by a loader and a driver that answer as they are told: what is missing is named, and
 * what was made is ended; one device a GPU; and what each answer of Vulkan's means. */
#include "unit.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "core/map/map_vulkan.h"

static struct {
	bool no_library, no_reason, no_find, no_create, signals_blocked;
	const char *lacks; /* a call of the instance's or the device's */
	VkResult to_create, to_enumerate, to_create_device;
	uint32_t gpus, families, with_queues; /* the first family that has some */
	int instances, devices, libraries;
	int guarded;   /* how many devices there were when exit was guarded last; -1: it was not */
	int unguarded; /* from so many devices on that fails */
} played;

static void *played_dlopen(const char *name, int flags)
{
	assert_string_equal(name, "libvulkan.so.1");
	assert_int_equal(flags, RTLD_NOW | RTLD_LOCAL);
	played.libraries += !played.no_library;
	return played.no_library ? NULL : &played;
}

static char *played_dlerror(void)
{
	return played.no_reason ? NULL : (char *)(uintptr_t) "it is not there";
}

static int played_dlclose(void *library)
{
	assert_ptr_equal(library, &played);
	played.libraries--;
	return 0;
}

static PFN_vkVoidFunction played_find(VkInstance instance, const char *name);

static void *played_dlsym(void *library, const char *name)
{
	assert_ptr_equal(library, &played);
	assert_string_equal(name, "vkGetInstanceProcAddr");
	return played.no_find ? NULL : (void *)played_find;
}

static int played_guard(struct map_reason *why)
{
	assert_int_equal(played.instances, 1);
	if (played.devices >= played.unguarded)
		return map_refuse(why, GPUSHARE_E_NO_MEMORY, "unguarded");
	played.guarded = played.devices;
	return GPUSHARE_OK;
}

#define vulkan_guard_exit played_guard
#define dlopen played_dlopen
#define dlerror played_dlerror
#define dlclose played_dlclose
#define dlsym played_dlsym
#include "core/map/map_vulkan_start.c"

static VkResult create_instance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *with,
				VkInstance *out_instance)
{
	sigset_t blocked;

	assert_true(!with && info->pApplicationInfo->apiVersion == VK_API_VERSION_1_1);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	played.signals_blocked = sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGSEGV);
	played.instances += played.to_create == VK_SUCCESS;
	*out_instance = (VkInstance)&played;
	return played.to_create;
}

static void destroy_instance(VkInstance instance, const VkAllocationCallbacks *with)
{
	assert_true(instance && !with);
	played.instances--;
}

static VkResult enumerate(VkInstance instance, uint32_t *count, VkPhysicalDevice *out)
{
	assert_true(instance && *count >= played.gpus);
	for (uint32_t i = 0; i < played.gpus; i++)
		out[i] = (VkPhysicalDevice)(uintptr_t)(i + 1);
	*count = played.gpus;
	return played.to_enumerate;
}

/* A GPU's UUID is its number all over. */
static void properties(VkPhysicalDevice physical, VkPhysicalDeviceProperties2 *out)
{
	VkPhysicalDeviceIDProperties *id = out->pNext;

	memset(id->deviceUUID, (int)(uintptr_t)physical, VK_UUID_SIZE);
	out->properties.limits.nonCoherentAtomSize = 64;
}

static void memory_properties(VkPhysicalDevice physical, VkPhysicalDeviceMemoryProperties *out)
{
	out->memoryTypeCount = (uint32_t)(uintptr_t)physical;
}

static void queue_families(VkPhysicalDevice physical, uint32_t *count, VkQueueFamilyProperties *out)
{
	assert_non_null(physical);
	*count = played.families;
	for (uint32_t i = 0; i < played.families; i++)
		out[i].queueCount = i >= played.with_queues;
}

static VkResult make_device(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
			    const VkAllocationCallbacks *with, VkDevice *out_device)
{
	assert_true(physical && !with && info->enabledExtensionCount == 1);
	assert_int_equal(info->pQueueCreateInfos->queueFamilyIndex, played.with_queues);
	assert_true(played.guarded >= 0); /* who forks meanwhile */
	played.devices += played.to_create_device == VK_SUCCESS;
	*out_device = (VkDevice)&played;
	return played.to_create_device;
}

static void destroy_device(VkDevice device, const VkAllocationCallbacks *with)
{
	assert_true(device && !with);
	played.devices--;
}

static void none(void)
{
}

static PFN_vkVoidFunction find_device(VkDevice device, const char *name)
{
	assert_non_null(device);
	if (played.lacks && !strcmp(name, played.lacks))
		return NULL;
	return strcmp(name, "vkDestroyDevice") ? none : (PFN_vkVoidFunction)destroy_device;
}

static PFN_vkVoidFunction played_find(VkInstance instance, const char *name)
{
	static const struct {
		const char *name;
		PFN_vkVoidFunction call;
	} calls[] = {
	    {"vkCreateInstance", (PFN_vkVoidFunction)create_instance},
	    {"vkDestroyInstance", (PFN_vkVoidFunction)destroy_instance},
	    {"vkEnumeratePhysicalDevices", (PFN_vkVoidFunction)enumerate},
	    {"vkGetPhysicalDeviceProperties2", (PFN_vkVoidFunction)properties},
	    {"vkGetPhysicalDeviceMemoryProperties", (PFN_vkVoidFunction)memory_properties},
	    {"vkGetPhysicalDeviceQueueFamilyProperties", (PFN_vkVoidFunction)queue_families},
	    {"vkCreateDevice", (PFN_vkVoidFunction)make_device},
	    {"vkGetDeviceProcAddr", (PFN_vkVoidFunction)find_device},
	};

	assert_true(instance || !strcmp(name, "vkCreateInstance"));
	if ((played.no_create && !instance) || (played.lacks && !strcmp(name, played.lacks)))
		return NULL;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].call;
	fail_msg("%s is asked for", name);
	return NULL;
}

static int set_up(void **state)
{
	memset(&vulkan, 0, sizeof(vulkan));
	memset(&played, 0, sizeof(played));
	played.gpus = 3;
	played.families = 2;
	played.with_queues = 1;
	played.guarded = -1;
	played.unguarded = INT_MAX;
	return 0;
}

static int device_of(int number, const struct vulkan_device **out_device, struct map_reason *why)
{
	unsigned char uuid[VK_UUID_SIZE];

	memset(uuid, number, sizeof(uuid));
	return vulkan_device(uuid, out_device, why);
}

static void refused(int number, int status, const char *words)
{
	const struct vulkan_device *device = NULL;
	struct map_reason why = {""};
	sigset_t blocked;

	assert_int_equal(device_of(number, &device, &why), status);
	assert_null(device);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" does not hold \"%s\"", why.text, words);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	assert_false(sigismember(&blocked, SIGTERM));
	assert_int_equal(vulkan.count, 0);
}

static void made_once(void **state)
{
	const struct vulkan_device *device, *again, *other;
	struct map_reason why;

	assert_int_equal(device_of(2, &device, &why), GPUSHARE_OK);
	assert_true(played.signals_blocked);
	assert_int_equal(device->atom_size, 64);
	assert_int_equal(device->memory.memoryTypeCount, 2);
	assert_int_equal(device_of(3, &other, &why), GPUSHARE_OK);
	assert_int_equal(device_of(2, &again, &why), GPUSHARE_OK);
	assert_true(device == again && device != other);
	assert_true(played.instances == 1 && played.devices == 2);
	assert_int_equal(played.guarded, 2);
	vulkan_set_proven(device, 3);
	assert_true(again->proven == 8 && !other->proven);
	played.to_enumerate = VK_INCOMPLETE; /* there are more, and it is among these */
	assert_int_equal(device_of(1, &again, &why), GPUSHARE_OK);
	vulkan.count = GPUS_MAX;
	assert_int_equal(device_of(9, &again, &why), GPUSHARE_E_LIMIT);
	assert_non_null(strstr(why.text, "maps memory of 64 GPUs"));
}

static void no_loader(void **state)
{
	played.no_library = true;
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "can't be loaded (it is not there)");
	played.no_reason = true;
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "can't be loaded (no reason given)");
	played.no_library = false;
	played.no_find = true;
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "it has no vkGetInstanceProcAddr");
	assert_int_equal(played.libraries, 0);
	played.no_find = false;
	played.no_create = true;
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "no Vulkan driver was found");
	played.no_create = false;
	played.to_create = VK_ERROR_OUT_OF_HOST_MEMORY;
	refused(1, GPUSHARE_E_NO_MEMORY, "vkCreateInstance answered");
}

/* Each call; what had been made by then is ended, if only that can be. */
static void lacking(void **state)
{
	static const char *const of_instance[] = {
#define V(name) "vk" #name,
	    VULKAN_INSTANCE_CALLS(V)};
	static const char *const of_device[] = {VULKAN_DEVICE_CALLS(V)
#undef V
	};
	char words[96];

	for (size_t i = 0; i < sizeof(of_instance) / sizeof(*of_instance); i++) {
		played.lacks = of_instance[i];
		played.instances = 0;
		snprintf(words, sizeof(words), "the Vulkan loader is too old: no %s", played.lacks);
		refused(1, GPUSHARE_E_NOT_SUPPORTED, words);
		assert_int_equal(played.instances, !strcmp(played.lacks, "vkDestroyInstance"));
		assert_null(vulkan.instance);
	}
	for (size_t i = 0; i < sizeof(of_device) / sizeof(*of_device); i++) {
		played.lacks = of_device[i];
		played.devices = 0;
		snprintf(words, sizeof(words), "Vulkan driver has no %s", played.lacks);
		refused(1, GPUSHARE_E_NOT_SUPPORTED, words);
		assert_int_equal(played.devices, !strcmp(played.lacks, "vkDestroyDevice"));
	}
}

static void no_device(void **state)
{
	played.to_enumerate = VK_ERROR_INITIALIZATION_FAILED;
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "vkEnumeratePhysicalDevices answered");
	played.to_enumerate = VK_SUCCESS;
	refused(4, GPUSHARE_E_NOT_SUPPORTED,
		"shows 3 devices here, and its GPU, GPU-04040404-0404-0404-0404-040404040404,");
	played.gpus = 1;
	refused(4, GPUSHARE_E_NOT_SUPPORTED, "shows 1 device here");
	played.families = 1; /* without queues */
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "vkCreateDevice answered VK_ERROR_FEATURE");
	played.families = 2;
	played.to_create_device = VK_ERROR_DEVICE_LOST;
	refused(1, GPUSHARE_E_NOT_SUPPORTED, "the GPU was lost");
	assert_int_equal(played.devices, 0);
}

/* What was made is ended; the next map tries again. */
static void unguarded(void **state)
{
	const struct vulkan_device *device;
	struct map_reason why;

	played.unguarded = 0;
	refused(1, GPUSHARE_E_NO_MEMORY, "unguarded");
	assert_true(!vulkan.instance && played.instances == 0 && played.devices == 0);
	played.unguarded = 1;
	refused(1, GPUSHARE_E_NO_MEMORY, "unguarded");
	assert_true(vulkan.instance && played.instances == 1 && played.devices == 0);
	played.unguarded = 2;
	assert_int_equal(device_of(1, &device, &why), GPUSHARE_OK);
	assert_int_equal(played.guarded, 1);
}

static int meaning(VkResult result, const char *words)
{
	struct map_reason why = {""};
	int status = vulkan_refuse(&why, result, "vkSome");

	if (!strstr(why.text, words) || !strstr(why.text, "vkSome answered "))
		fail_msg("\"%s\" does not hold \"%s\"", why.text, words);
	return status;
}

static void answers(void **state)
{
	for (int result = VK_ERROR_OUT_OF_HOST_MEMORY; result >= VK_ERROR_TOO_MANY_OBJECTS;
	     result--)
		assert_true(meaning((VkResult)result, "") < 0);
	assert_int_equal(meaning(VK_ERROR_OUT_OF_DEVICE_MEMORY, "BAR1"), GPUSHARE_E_NO_MEMORY);
	assert_int_equal(meaning(VK_ERROR_MEMORY_MAP_FAILED, "BAR1"), GPUSHARE_E_NO_MEMORY);
	assert_int_equal(meaning(VK_ERROR_TOO_MANY_OBJECTS, "unmap some"), GPUSHARE_E_LIMIT);
	assert_int_equal(meaning(VK_ERROR_INVALID_EXTERNAL_HANDLE, "this kind of memory"),
			 GPUSHARE_E_NOT_SUPPORTED);
	assert_int_equal(meaning(VK_ERROR_LAYER_NOT_PRESENT, "layer"), GPUSHARE_E_NOT_SUPPORTED);
	assert_int_equal(meaning((VkResult)-4711, "vkSome answered -4711"),
			 GPUSHARE_E_NOT_SUPPORTED);
}

UNIT_MAIN(cmocka_unit_test_setup(made_once, set_up), cmocka_unit_test_setup(no_loader, set_up),
	  cmocka_unit_test_setup(lacking, set_up), cmocka_unit_test_setup(no_device, set_up),
	  cmocka_unit_test_setup(unguarded, set_up), UNIT(answers))
