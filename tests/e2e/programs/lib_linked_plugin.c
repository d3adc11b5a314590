// SPDX-License-Identifier: MIT
/* A plug-in that is linked against the driver, for a program that is not. */
#include <dlfcn.h>

#include "cuda/cuda_abi.h"

extern cu_cuInit_call cuInit;
extern cu_cuDeviceGet_call cuDeviceGet;
extern cu_cuDevicePrimaryCtxRetain_call cuDevicePrimaryCtxRetain;
extern cu_cuCtxSetCurrent_call cuCtxSetCurrent;
extern cu_cuMemAlloc_v2_call cuMemAlloc_v2;
extern cu_cuMemFree_v2_call cuMemFree_v2;
int plugin_init(void);
int plugin_alloc(void);
int plugin_alloc_found(void);
int plugin_free(void);

static cu_deviceptr pointers[16];
static int count;
static volatile int made;

int plugin_init(void)
{
	cu_context context = NULL;
	cu_device device = 0;
	cu_result result = cuInit(0);

	if (!result)
		result = cuDeviceGet(&device, 0);
	if (!result)
		result = cuDevicePrimaryCtxRetain(&context, device);
	return result ? result : cuCtxSetCurrent(context);
}

int plugin_alloc(void)
{
	int code = cuMemAlloc_v2(&pointers[count++], 1 << 20);

	made += !code; /* no tail call: the caller's address must be in this library */
	return code;
}

/* Look up by RTLD_DEFAULT, which searches this plug-in's scope even if it was loaded RTLD_LOCAL. */
int plugin_alloc_found(void)
{
	cu_cuMemAlloc_v2_call *found =
	    (cu_cuMemAlloc_v2_call *)dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");

	int code = found ? found(&pointers[count++], 2 << 20) : -1;

	made += !code;
	return code;
}

int plugin_free(void)
{
	int failed = 0;

	while (count)
		failed += cuMemFree_v2(pointers[--count]) != 0;
	return failed;
}
