/* SPDX-License-Identifier: MIT */
/*
 * Common parts of the simulated Vulkan's calls: faults (the entries of GPUSHARE_SIM_FAIL that begin
 * with "vk"), the log, and the look-up. GPUSHARE_SIM_VULKAN=word,... simulates another machine.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "vulkan_sim.h"

static const char *const names[VULKAN_CALL_COUNT] = {
#define V(name) [VULKAN_##name] = "vk" #name,
    SIM_VULKAN_CALLS(V)
#undef V
};

static atomic_uint seen[VULKAN_CALL_COUNT];

void vulkan_misused(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fputs("the simulated Vulkan was misused: ", stderr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	abort();
}

/* Return true if the variable's comma-separated list contains `word`. */
static bool listed(const char *variable, const char *word)
{
	const char *text = getenv(variable);

	while (text && *text) {
		size_t length = strcspn(text, ",");
		if (length == strlen(word) && !strncmp(text, word, length))
			return true;
		text += length + (text[length] == ',');
	}
	return false;
}

bool vulkan_is(const char *word)
{
	return listed("GPUSHARE_SIM_VULKAN", word);
}

bool vulkan_lacks(const char *symbol)
{
	return listed("GPUSHARE_SIM_LACKS", symbol);
}

int vulkan_machine(void)
{
	const char *devices = getenv("GPUSHARE_SIM_DEVICES");

	return devices && *devices ? atoi(devices) : 1;
}

/* Entries are call:nth:count[:result], as for the driver, but for calls of this library. */
VkResult vulkan_fault(enum vulkan_call call)
{
	const char *text = getenv("GPUSHARE_SIM_FAIL");
	unsigned int now = atomic_fetch_add(&seen[call], 1) + 1, nth, count;

	for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
		char name[64];
		int result = VK_ERROR_UNKNOWN;

		if (strncmp(text, "vk", 2))
			continue;
		if (sscanf(text, "%63[A-Za-z0-9]:%u:%u:%d", name, &nth, &count, &result) < 3)
			vulkan_misused("GPUSHARE_SIM_FAIL does not parse: %s", text);
		if (!strcmp(name, names[call]) && now >= nth && now - nth < count)
			return (VkResult)result;
	}
	return VK_SUCCESS;
}

/* Write one line per call, as the driver does: "pid call result pointer size". */
VkResult vulkan_log(enum vulkan_call call, VkResult result, uint64_t size)
{
	const char *log = getenv("GPUSHARE_SIM_LOG");
	char line[160];
	int length = snprintf(line, sizeof(line), "%d %s %d 0x0 %llu\n", (int)getpid(), names[call],
			      (int)result, (unsigned long long)size);
	_cleanup_close_ int fd =
	    log && *log ? open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600)
			: -1;

	if (fd >= 0 && write(fd, line, (size_t)length) != length)
		vulkan_misused("the log %s can't be written", log);
	return result;
}

void vulkan_check(const void *handle, const char *what)
{
	int pid = handle ? *(const int *)handle : 0; /* the first member of every handle's struct */

	if (pid != getpid())
		vulkan_misused("no %s of this process: %p is process %d's", what, handle, pid);
}

static const struct {
	const char *name;
	PFN_vkVoidFunction call;
	enum { OF_NOTHING, OF_INSTANCE, OF_DEVICE } of;
} table[] = {
#define V(name) {"vk" #name, (PFN_vkVoidFunction)vulkan_##name, OF_NOTHING},
    SIM_VULKAN_GLOBAL_CALLS(V)
#undef V
#define V(name) {"vk" #name, (PFN_vkVoidFunction)vulkan_##name, OF_INSTANCE},
	SIM_VULKAN_INSTANCE_CALLS(V)
#undef V
#define V(name) {"vk" #name, (PFN_vkVoidFunction)vulkan_##name, OF_DEVICE},
	    SIM_VULKAN_DEVICE_CALLS(V)
#undef V
};

static PFN_vkVoidFunction find(const char *name, int from, int to)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (!strcmp(table[i].name, name) && (int)table[i].of >= from &&
		    (int)table[i].of <= to && !vulkan_lacks(name))
			return table[i].call;
	return NULL;
}

__attribute__((visibility("default"))) PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance,
										const char *name);

PFN_vkVoidFunction vkGetInstanceProcAddr(VkInstance instance, const char *name)
{
	if (!instance)
		return find(name, OF_NOTHING, OF_NOTHING);
	vulkan_check(instance, "instance");
	return find(name, OF_INSTANCE, OF_DEVICE);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vulkan_GetDeviceProcAddr(VkDevice device, const char *name)
{
	vulkan_check(device, "device");
	return find(name, OF_DEVICE, OF_DEVICE);
}
