/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <dlfcn.h>

#include "cuda/cuda_abi.h"

/* X(call): the driver's */
#define CALLS(X) \
	X(cuDeviceGet) \
	X(cuDevicePrimaryCtxRetain) \
	X(cuCtxPushCurrent_v2) \
	X(cuMemcpy) X(cuCtxSynchronize) X(cuCtxPopCurrent_v2) X(cuDevicePrimaryCtxRelease_v2)

struct calls {
#define X(name) cu_##name##_call *name;
	CALLS(X)
#undef X
};

/* The library has loaded the driver, and has initialized it. */
static bool find_calls(struct calls *calls)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

#define X(name) calls->name = library ? (cu_##name##_call *)dlsym(library, #name) : NULL;
	CALLS(X)
#undef X
#define X(name) &&calls->name
	return library CALLS(X);
#undef X
}

bool device_copy(struct gpushare_buffer *to, struct gpushare_buffer *from)
{
	struct calls calls;
	cu_context context;
	cu_device device;
	bool good = false;

	if (!find_calls(&calls) || calls.cuDeviceGet(&device, gpushare_device(to)) != CU_OK ||
	    calls.cuDevicePrimaryCtxRetain(&context, device) != CU_OK)
		return false;
	if (calls.cuCtxPushCurrent_v2(context) == CU_OK) {
		good = calls.cuMemcpy(gpushare_pointer(to), gpushare_pointer(from),
				      gpushare_size(from)) == CU_OK &&
		       calls.cuCtxSynchronize() == CU_OK;
		calls.cuCtxPopCurrent_v2(&context);
	}
	calls.cuDevicePrimaryCtxRelease_v2(device);
	return good;
}
