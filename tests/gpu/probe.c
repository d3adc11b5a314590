/* SPDX-License-Identifier: MIT */
/*
 * Can a CUDA program use a GPU here? Prints one line on stdout. Exit 0: yes ("NVIDIA H200, driver
 * 580.159.04"). Exit 1: no (the reason). Built without a toolkit.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/cuda_abi.h"

static int no_gpu(const char *reason, const char *detail)
{
	printf("%s%s\n", reason, detail);
	return 1;
}

/* Print the driver's release number; the driver API only reports the CUDA version. */
static void print_driver_version(cu_cuDriverGetVersion_call *get_version)
{
	FILE *file = fopen("/sys/module/nvidia/version", "re");
	char text[64] = "";
	int cuda = 0;

	if (file) {
		if (fgets(text, sizeof(text), file))
			text[strcspn(text, "\n")] = '\0';
		fclose(file);
	}
	if (!*text) {
		file = fopen("/proc/driver/nvidia/version", "re");
		char line[256] = "";
		const char *at;
		if (file && fgets(line, sizeof(line), file) && (at = strstr(line, "  ")))
			sscanf(at, " %63s", text);
		if (file)
			fclose(file);
	}
	if (get_version && get_version(&cuda) == CU_OK)
		printf(", driver %s (CUDA %d.%d)\n", *text ? text : "of unknown version",
		       cuda / 1000, cuda % 1000 / 10);
	else
		printf(", driver %s\n", *text ? text : "of unknown version");
}

int main(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_cuInit_call *init;
	cu_cuDeviceGetCount_call *count_devices;
	cu_cuDeviceGet_call *get_device;
	cu_cuDeviceGetName_call *get_name;
	cu_device device = 0;
	cu_result result;
	char name[128] = "", code[32];
	int count = 0;

	if (!library)
		return no_gpu("libcuda.so.1 was not found by the loader", "");
	init = (cu_cuInit_call *)dlsym(library, "cuInit");
	count_devices = (cu_cuDeviceGetCount_call *)dlsym(library, "cuDeviceGetCount");
	get_device = (cu_cuDeviceGet_call *)dlsym(library, "cuDeviceGet");
	get_name = (cu_cuDeviceGetName_call *)dlsym(library, "cuDeviceGetName");
	if (!init || !count_devices || !get_device || !get_name)
		return no_gpu("libcuda.so.1 lacks cuInit or cuDeviceGet: not a CUDA driver", "");
	if (!dlsym(library, "cuDeviceGetUuid_v2"))
		return no_gpu(
		    "the CUDA driver is too old: libcuda.so.1 has no cuDeviceGetUuid_v2 (CUDA 11.8 "
		    "or later is needed)",
		    "");
	result = init(0);
	if (result != CU_OK) {
		snprintf(code, sizeof(code), "%d", (int)result);
		return no_gpu("libcuda.so.1 was loaded and cuInit answered CUDA error ", code);
	}
	if (count_devices(&count) != CU_OK || count < 1)
		return no_gpu("libcuda.so.1 was loaded and sees no device", "");
	if (get_device(&device, 0) != CU_OK || get_name(name, sizeof(name), device) != CU_OK)
		return no_gpu("libcuda.so.1 was loaded and does not name its first device", "");
	if (strstr(name, "simulated"))
		return no_gpu("libcuda.so.1 is the simulated driver: ", name);
	printf("%s", name);
	print_driver_version((cu_cuDriverGetVersion_call *)dlsym(library, "cuDriverGetVersion"));
	return 0;
}
