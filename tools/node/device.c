/* SPDX-License-Identifier: MIT */
#include <dlfcn.h>

#include "cuda/cuda_abi.h"
#include "pull.h"

/* X(call): calls of the CUDA driver, which libgpushare has loaded and initialized */
#define CALLS(X) \
	X(cuDeviceGet) \
	X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuMemcpy) X(cuCtxSynchronize)

bool device_copy(struct gpushare_buffer *to, struct gpushare_buffer *from)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	cu_context context;
	cu_device device;

#define X(name) cu_##name##_call *name = driver ? (cu_##name##_call *)dlsym(driver, #name) : NULL;
	CALLS(X)
#undef X
#define X(name) name &&
	return CALLS(X) cuDeviceGet(&device, gpushare_device(to)) == CU_OK &&
	       cuDevicePrimaryCtxRetain(&context, device) == CU_OK &&
	       cuCtxSetCurrent(context) == CU_OK &&
	       cuMemcpy(gpushare_pointer(to), gpushare_pointer(from), gpushare_size(from)) ==
		   CU_OK &&
	       cuCtxSynchronize() == CU_OK;
#undef X
}
