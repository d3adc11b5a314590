/* SPDX-License-Identifier: MIT */
/*
 * libnvidia-ml.so.1: what `gpushare top` asks NVML. Results as in NVML's API reference. The memory
 * in use is a setting, because the simulated driver counts only what its own process uses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_sim.h"
#include "sim_machine.h"

enum { NVML_SUCCESS = 0, NVML_UNINITIALIZED = 1, NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6 };

struct nvml_memory {
	unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);

static bool initialised;
static char devices[SIM_DEVICES_MAX]; /* a handle is the address of one */

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value;

	return text && sim_parse_size(text, &value) ? value : otherwise;
}

int nvmlInit_v2(void)
{
	initialised = true;
	return NVML_SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
	char text[SIM_UUID_TEXT];

	if (!initialised)
		return NVML_UNINITIALIZED;
	if (!uuid || !device)
		return NVML_INVALID_ARGUMENT;
	for (uint64_t i = 0; i < setting("GPUSHARE_SIM_DEVICES", 1) && i < SIM_DEVICES_MAX; i++) {
		sim_uuid_text((int)i, text);
		if (strcmp(uuid, text) != 0)
			continue;
		*device = &devices[i];
		return NVML_SUCCESS;
	}
	return NVML_NOT_FOUND;
}

int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory)
{
	if (!initialised)
		return NVML_UNINITIALIZED;
	if (!device || !memory)
		return NVML_INVALID_ARGUMENT;
	memory->total = setting("GPUSHARE_SIM_MEMORY", (uint64_t)4 << 30);
	memory->used = setting("GPUSHARE_SIM_USED", 0);
	memory->free = memory->total - memory->used;
	return NVML_SUCCESS;
}
