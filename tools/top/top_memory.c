/* SPDX-License-Identifier: MIT */
/* GPU memory. The registry reports what each name holds. NVML reports total and free memory,
 * without a CUDA context. NVML comes with the driver, so it is loaded at run time. Source of types
 * and numbers: NVML API reference. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol.h"
#include "top.h"

#define NVML_LIBRARY "libnvidia-ml.so.1"
#define NVML_SUCCESS 0

struct nvml_memory {
	unsigned long long total, free, used; /* bytes */
};

/* X(name, parameters): the functions of NVML that are called */
#define NVML_CALLS(X) \
	X(nvmlInit_v2, (void)) \
	X(nvmlDeviceGetHandleByUUID, (const char *uuid, void **out_device)) \
	X(nvmlDeviceGetMemoryInfo, (void *device, struct nvml_memory *out_memory))

static struct {
#define X(name, parameters) int(*name) parameters;
	NVML_CALLS(X)
#undef X
} nvml;

void top_memory_add(struct top_view *view, const struct gpushare_info *info)
{
	size_t i = 0;

	if (info->backing != GPUSHARE_BACKING_IPC && info->backing != GPUSHARE_BACKING_VMM)
		return;
	while (i < view->gpu_count &&
	       memcmp(view->gpus[i].uuid, info->device_uuid, GPUSHARE_UUID_SIZE) != 0)
		i++;
	if (i == TOP_GPUS_MAX)
		return;
	if (i == view->gpu_count) {
		view->gpus[view->gpu_count++] = (struct top_gpu){.names = 0};
		memcpy(view->gpus[i].uuid, info->device_uuid, GPUSHARE_UUID_SIZE);
	}
	view->gpus[i].names += held_bytes(info->size, info->base_size);
}

static bool open_nvml(void)
{
	void *library = dlopen(NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	bool all = library != NULL;

#define X(name, parameters) all = all && (nvml.name = (__typeof__(nvml.name))dlsym(library, #name));
	NVML_CALLS(X)
#undef X
	return all && nvml.nvmlInit_v2() == NVML_SUCCESS;
}

static void ask(struct top_gpu *gpu)
{
	struct nvml_memory memory;
	char uuid[TOOL_TEXT_MAX], part[TOOL_TEXT_MAX];
	void *device;

	tool_format_uuid(gpu->uuid, uuid);
	/* NVML finds a MIG instance by "MIG-" and the UUID that CUDA reports for it. */
	snprintf(part, sizeof(part), "MIG-%s", uuid + strlen("GPU-"));
	if (nvml.nvmlDeviceGetHandleByUUID(uuid, &device) != NVML_SUCCESS &&
	    nvml.nvmlDeviceGetHandleByUUID(part, &device) != NVML_SUCCESS)
		return;
	if (nvml.nvmlDeviceGetMemoryInfo(device, &memory) != NVML_SUCCESS)
		return;
	gpu->total = memory.total;
	gpu->free = memory.free < memory.total ? memory.free : memory.total;
}

static int by_uuid(const void *one, const void *other)
{
	return memcmp(one, other, GPUSHARE_UUID_SIZE);
}

void top_memory_ask(struct top_view *view)
{
	static enum { UNKNOWN, PRESENT, ABSENT } state;

	if (view->gpu_count && state == UNKNOWN)
		state = open_nvml() ? PRESENT : ABSENT;
	qsort(view->gpus, view->gpu_count, sizeof(*view->gpus), by_uuid);
	for (size_t i = 0; state == PRESENT && i < view->gpu_count; i++)
		ask(&view->gpus[i]);
}
