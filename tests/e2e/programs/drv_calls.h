/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_DRV_CALLS_H
#define TESTS_E2E_DRV_CALLS_H
#include "cuda/cuda_abi.h"
#include "gpu_script.h"

/* N(call): calls for the other ways to allocate and free memory, and related ones (drv_ways.h,
 * drv_streams.h). Of those that rt_app uses, cuda_abi.h declares the newest version, which the
 * runtime finds by the bare name. rt_app replaces cuCtxGetDevice. */
#define DRV_CALLS_WAYS(N) \
	N(cuCtxGetDevice) \
	N(cuDeviceGetDefaultMemPool) \
	N(cuMemPoolCreate) \
	N(cuMemPoolDestroy) \
	N(cuMemPoolGetAttribute) \
	N(cuMemPoolSetAttribute) \
	N(cuMemPoolTrimTo) \
	N(cuMemPoolSetAccess) \
	N(cuMemsetD8_v2) \
	N(cuMemAllocManaged) \
	N(cuMemAllocAsync) \
	N(cuMemAllocFromPoolAsync) \
	N(cuMemFreeAsync) \
	N(cuMemGetAllocationGranularity) \
	N(cuMemCreate) \
	N(cuMemRelease) \
	N(cuMemRetainAllocationHandle) \
	N(cuMemAddressReserve) \
	N(cuMemAddressFree) \
	N(cuMemMap) \
	N(cuMemUnmap) \
	N(cuMemSetAccess) \
	N(cuMemGetAddressRange_v2) \
	N(cuMemGetInfo_v2) \
	N(cuMemHostAlloc) \
	N(cuPointerGetAttribute) \
	N(cuPointerGetAttributes) \
	N(cuMemPrefetchAsync) \
	N(cuMemPrefetchAsync_v2) \
	N(cuMemAdvise) \
	N(cuMemAdvise_v2) \
	N(cuStreamAttachMemAsync) \
	N(cuIpcGetMemHandle) \
	N(cuIpcOpenMemHandle_v2) \
	N(cuIpcCloseMemHandle) \
	N(cuStreamCreate) \
	N(cuStreamSynchronize) \
	N(cuStreamWaitValue32_v2) \
	N(cuStreamWriteValue64_v2) \
	N(cuStreamBeginCapture_v2) \
	N(cuStreamEndCapture) \
	N(cuGraphDestroy)

/* Calls for contexts. A list of their own: their bare names have meant several versions. */
#define DRV_CALLS_CONTEXTS(N) \
	N(cuDevicePrimaryCtxRelease) \
	N(cuDevicePrimaryCtxRelease_v2) \
	N(cuDevicePrimaryCtxReset) \
	N(cuDevicePrimaryCtxReset_v2) \
	N(cuCtxCreate_v2) \
	N(cuCtxDestroy) \
	N(cuCtxDestroy_v2)

/* The calls that every driver program needs. */
#define DRV_CALLS_MAIN(N) \
	N(cuInit) \
	N(cuDeviceGet) \
	N(cuDevicePrimaryCtxRetain) \
	N(cuCtxSetCurrent) \
	N(cuMemAlloc_v2) \
	N(cuMemAllocPitch_v2) \
	N(cuMemFree_v2) \
	N(cuMemcpyHtoD_v2) \
	N(cuMemcpyDtoH_v2)

#define DRV_CALLS(N) DRV_CALLS_MAIN(N) DRV_CALLS_WAYS(N) DRV_CALLS_CONTEXTS(N)

static inline int drv_not_found(void)
{
	script_stop("a driver call is used that was not found");
	return -1;
}

#endif
