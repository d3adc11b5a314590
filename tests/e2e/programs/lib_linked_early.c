// SPDX-License-Identifier: MIT
/* A library whose constructor allocates. A program that links it runs that constructor before the
 * constructors of preloaded libraries. */
#include "cuda/cuda_abi.h"

int early_code = -1;
cu_deviceptr early_pointer;

extern cu_cuInit_call cuInit;
extern cu_cuDeviceGet_call cuDeviceGet;
extern cu_cuDevicePrimaryCtxRetain_call cuDevicePrimaryCtxRetain;
extern cu_cuCtxSetCurrent_call cuCtxSetCurrent;
extern cu_cuMemAlloc_v2_call cuMemAlloc_v2;

__attribute__((constructor)) static void allocate(void)
{
	cu_context context = NULL;
	cu_device device = 0;

	if (!cuInit(0) && !cuDeviceGet(&device, 0) && !cuDevicePrimaryCtxRetain(&context, device) &&
	    !cuCtxSetCurrent(context))
		early_code = cuMemAlloc_v2(&early_pointer, 3 << 20);
}
