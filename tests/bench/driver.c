/* SPDX-License-Identifier: MIT */
/*
 * A CUDA driver whose allocations cost nothing: a thread takes the next of its own addresses, and a
 * free only returns success. The memory can be shared by name (handles, ranges, a UUID), but has no
 * contents. A preload that leaves the program's memory alone calls nothing else.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cuda/cuda_abi.h"

#define BLOCK (2ULL << 20)
/*
 * A thread reuses its addresses after this many, as a real driver does. The program holds fewer at
 * once.
 */
#define BLOCKS 65536
#define FIRST_ADDRESS 0x700000000000ULL

/* cuGetProcAddress knows each by its name without "_v2". */
/* clang-format off */
#define DRIVER_CALLS(N) \
	N(cuDriverGetVersion) N(cuGetErrorName) N(cuDeviceGet) N(cuDeviceGetCount) \
	N(cuDeviceGetUuid_v2) N(cuDeviceGetAttribute) N(cuDevicePrimaryCtxRetain) \
	N(cuCtxPopCurrent_v2) N(cuCtxGetCurrent) N(cuCtxGetDevice) N(cuMemAlloc_v2) \
	N(cuMemAllocAsync) N(cuMemCreate) N(cuMemGetAllocationGranularity) \
	N(cuMemGetAddressRange_v2) N(cuPointerGetAttribute) N(cuIpcGetMemHandle) \
	N(cuIpcOpenMemHandle_v2) N(cuStreamIsCapturing) N(cuGetProcAddress) \
	N(cuGetProcAddress_v2)
/* Likewise; these only succeed. */
#define EMPTY_CALLS(N) \
	N(cuInit) N(cuDevicePrimaryCtxRelease_v2) N(cuCtxPushCurrent_v2) N(cuCtxSetCurrent) \
	N(cuMemFree_v2) N(cuMemFreeAsync) N(cuMemRelease) N(cuIpcCloseMemHandle)
/* The preload wants these, too, but calls none of them here. */
#define NEEDED_CALLS(N) \
	N(cuDeviceCanAccessPeer) N(cuDeviceGetMemPool) N(cuDeviceGetDefaultMemPool) \
	N(cuDevicePrimaryCtxGetState) N(cuCtxSynchronize) N(cuThreadExchangeStreamCaptureMode) \
	N(cuMemPoolGetAttribute) N(cuIpcGetEventHandle) N(cuIpcOpenEventHandle) \
	N(cuMemHostAlloc) N(cuMemFreeHost) N(cuMemHostRegister_v2) N(cuMemHostUnregister) \
	N(cuMemHostGetDevicePointer_v2) N(cuMemAddressReserve) N(cuMemAddressFree) N(cuMemMap) \
	N(cuMemUnmap) N(cuMemSetAccess) N(cuMemRetainAllocationHandle) \
	N(cuMemExportToShareableHandle) N(cuMemImportFromShareableHandle) N(cuMemcpyHtoD_v2) \
	N(cuMemcpyDtoH_v2) N(cuMemcpyHtoDAsync_v2) N(cuMemcpyDtoHAsync_v2) N(cuStreamCreate) \
	N(cuStreamSynchronize) N(cuStreamDestroy_v2) N(cuStreamGetCtx) N(cuStreamWaitEvent) \
	N(cuLaunchHostFunc) N(cuEventCreate) N(cuEventRecord) N(cuEventQuery) \
	N(cuEventSynchronize) N(cuEventDestroy_v2) N(cuMemGetInfo_v2)
/* clang-format on */

#define N(name) __attribute__((visibility("default"))) cu_##name##_call name;
DRIVER_CALLS(N)
#undef N

#define ANSWER(name, result) \
	__attribute__((visibility("default"))) cu_result name(void); \
	cu_result name(void) \
	{ \
		return result; \
	}
#define N(name) ANSWER(name, CU_OK)
EMPTY_CALLS(N)
#undef N
#define N(name) ANSWER(name, CU_NOT_SUPPORTED)
NEEDED_CALLS(N)
#undef N

/* initial-exec: access takes one instruction; otherwise a library's thread variable costs a call */
static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	cu_deviceptr base;
	unsigned int next;
} mine;

static cu_result take(cu_deviceptr *pointer)
{
	static atomic_ullong threads;

	if (!mine.base)
		mine.base = FIRST_ADDRESS + atomic_fetch_add(&threads, 1) * BLOCKS * BLOCK;
	*pointer = mine.base + mine.next++ % BLOCKS * BLOCK;
	return CU_OK;
}

cu_result cuMemAlloc_v2(cu_deviceptr *pointer, size_t size)
{
	return take(pointer);
}

cu_result cuMemAllocAsync(cu_deviceptr *pointer, size_t size, cu_stream stream)
{
	return take(pointer);
}

cu_result cuMemCreate(cu_mem_handle *handle, size_t size, const cu_mem_prop *prop,
		      unsigned long long flags)
{
	return take(handle);
}

cu_result cuDriverGetVersion(int *version)
{
	*version = 13000;
	return CU_OK;
}

cu_result cuGetErrorName(cu_result error, const char **text)
{
	*text = error == CU_OK ? "CUDA_SUCCESS" : "CUDA_ERROR_UNKNOWN";
	return CU_OK;
}

cu_result cuDeviceGet(cu_device *device, int ordinal)
{
	*device = ordinal;
	return ordinal ? CU_INVALID_DEVICE : CU_OK;
}

cu_result cuDeviceGetCount(int *count)
{
	*count = 1;
	return CU_OK;
}

cu_result cuDeviceGetUuid_v2(cu_uuid *uuid, cu_device device)
{
	memset(uuid, 0xbe, sizeof(*uuid));
	return device ? CU_INVALID_DEVICE : CU_OK;
}

cu_result cuDeviceGetAttribute(int *value, cu_device_attribute attribute, cu_device device)
{
	*value = 1;
	return device ? CU_INVALID_DEVICE : CU_OK;
}

/* One context, current everywhere. */
static cu_context the_context(void)
{
	return (cu_context)&mine;
}

cu_result cuDevicePrimaryCtxRetain(cu_context *context, cu_device device)
{
	*context = the_context();
	return device ? CU_INVALID_DEVICE : CU_OK;
}

cu_result cuCtxPopCurrent_v2(cu_context *context)
{
	*context = the_context();
	return CU_OK;
}

cu_result cuCtxGetCurrent(cu_context *context)
{
	*context = the_context();
	return CU_OK;
}

cu_result cuCtxGetDevice(cu_device *device)
{
	*device = 0;
	return CU_OK;
}

cu_result cuMemGetAllocationGranularity(size_t *granularity, const cu_mem_prop *prop,
					cu_granularity_flags option)
{
	*granularity = BLOCK;
	return CU_OK;
}

cu_result cuMemGetAddressRange_v2(cu_deviceptr *base, size_t *size, cu_deviceptr pointer)
{
	if (base)
		*base = pointer & ~(BLOCK - 1);
	if (size)
		*size = BLOCK;
	return CU_OK;
}

cu_result cuPointerGetAttribute(void *value, cu_pointer_attribute attribute, cu_deviceptr pointer)
{
	switch (attribute) {
	case CU_ATTRIBUTE_CONTEXT:
		*(cu_context *)value = the_context();
		return CU_OK;
	case CU_ATTRIBUTE_MEMORY_TYPE:
		*(cu_memory_type *)value = CU_MEMORY_DEVICE;
		return CU_OK;
	case CU_ATTRIBUTE_RANGE_START:
		*(cu_deviceptr *)value = pointer & ~(BLOCK - 1);
		return CU_OK;
	case CU_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)value = BLOCK;
		return CU_OK;
	case CU_ATTRIBUTE_LEGACY_IPC_CAPABLE:
		*(int *)value = 1;
		return CU_OK;
	case CU_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_ATTRIBUTE_IS_MANAGED:
		*(int *)value = 0;
		return CU_OK;
	case CU_ATTRIBUTE_MEMPOOL:
		*(cu_mem_pool *)value = NULL;
		return CU_OK;
	default:
		return CU_INVALID_VALUE;
	}
}

cu_result cuIpcGetMemHandle(cu_ipc_mem_handle *handle, cu_deviceptr pointer)
{
	memset(handle, 0, sizeof(*handle));
	memcpy(handle->reserved, &pointer, sizeof(pointer));
	return CU_OK;
}

cu_result cuIpcOpenMemHandle_v2(cu_deviceptr *pointer, cu_ipc_mem_handle handle, unsigned int flags)
{
	memcpy(pointer, handle.reserved, sizeof(*pointer));
	return CU_OK;
}

cu_result cuStreamIsCapturing(cu_stream stream, cu_capture_status *status)
{
	*status = 0;
	return CU_OK;
}

/* "cuMemAlloc" means cuMemAlloc_v2 for every version: the older calls don't exist here. */
static bool means(const char *symbol, const char *bare)
{
	size_t length = strlen(bare);

	return !strncmp(symbol, bare, length) &&
	       (!symbol[length] || !strcmp(symbol + length, "_v2"));
}

cu_result cuGetProcAddress_v2(const char *symbol, void **pointer, int version, cu_uint64 flags,
			      cu_proc_status *status)
{
	static const struct {
		const char *symbol;
		void *pointer;
	} calls[] = {
#define N(name) {#name, (void *)name},
	    DRIVER_CALLS(N) EMPTY_CALLS(N)
#undef N
	};

	*pointer = NULL;
	/* the last match: for cuGetProcAddress that is the newer one */
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		if (means(calls[i].symbol, symbol))
			*pointer = calls[i].pointer;
	if (status)
		*status = *pointer ? CU_OK : CU_PROC_SYMBOL_NOT_FOUND;
	return CU_OK;
}

cu_result cuGetProcAddress(const char *symbol, void **pointer, int version, cu_uint64 flags)
{
	return cuGetProcAddress_v2(symbol, pointer, version, flags, NULL) == CU_OK && *pointer
		   ? CU_OK
		   : CU_NOT_FOUND;
}
