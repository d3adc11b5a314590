/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_CALLS_H
#define TESTS_E2E_DRV_CALLS_H
#include "cuda_abi.h"
#include "gpu_script.h"

/* N(call): what a driver program needs */
#define DRV_CALLS(N) \
	N(cuInit) \
	N(cuDeviceGet) \
	N(cuDevicePrimaryCtxRetain) \
	N(cuCtxSetCurrent) \
	N(cuMemAlloc_v2) \
	N(cuMemAllocPitch_v2) \
	N(cuMemFree_v2) \
	N(cuMemcpyHtoD_v2) \
	N(cuMemcpyDtoH_v2)

#endif
