/* SPDX-License-Identifier: MIT */
/* Allocation and IPC handles. Size 0 is no error in the runtime, unlike in the driver. */
#include <string.h>

#include "runtime_sim.h"

static cudaError_t memory_nothing(void **pointer)
{
	const struct runtime_table *table;
	cudaError_t error = runtime_ready(&table, RUNTIME_LEGACY);

	if (error == cudaSuccess)
		*pointer = NULL;
	return runtime_note(error);
}

cudaError_t cudaMalloc(void **pointer, size_t size)
{
	if (!pointer)
		return runtime_note(cudaErrorInvalidValue);
	if (!size)
		return memory_nothing(pointer);
	RUNTIME_RUN(RUNTIME_LEGACY, cuMemAlloc, (cu_deviceptr *)pointer, size);
}

cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
	if (!pointer || !pitch)
		return runtime_note(cudaErrorInvalidValue);
	if (!width || !height) {
		*pitch = 0;
		return memory_nothing(pointer);
	}
	RUNTIME_RUN(RUNTIME_LEGACY, cuMemAllocPitch, (cu_deviceptr *)pointer, pitch, width, height,
		    4);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pointer, struct cudaExtent extent)
{
	size_t rows;

	if (!pointer || __builtin_mul_overflow(extent.height, extent.depth, &rows))
		return runtime_note(cudaErrorInvalidValue);
	pointer->xsize = extent.width;
	pointer->ysize = extent.height;
	return cudaMallocPitch(&pointer->ptr, &pointer->pitch, extent.width, rows);
}

cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags)
{
	if (!pointer || !size)
		return runtime_note(cudaErrorInvalidValue);
	RUNTIME_RUN(RUNTIME_LEGACY, cuMemAllocManaged, (cu_deviceptr *)pointer, size, flags);
}

cudaError_t cudaFree(void *pointer)
{
	if (!pointer)
		return memory_nothing(&pointer);
	RUNTIME_RUN(RUNTIME_LEGACY, cuMemFree, (uintptr_t)pointer);
}

RUNTIME_TWINS(cudaMallocAsync, _ptsz, (void **pointer, size_t size, cudaStream_t stream),
	      (pointer, size, stream))
{
	if (!pointer)
		return runtime_note(cudaErrorInvalidValue);
	if (!size)
		return memory_nothing(pointer);
	RUNTIME_RUN(mode, cuMemAllocAsync, (cu_deviceptr *)pointer, size, (cu_stream)stream);
}

RUNTIME_TWINS(cudaMallocFromPoolAsync, _ptsz,
	      (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream),
	      (pointer, size, pool, stream))
{
	if (!pointer)
		return runtime_note(cudaErrorInvalidValue);
	if (!size)
		return memory_nothing(pointer);
	RUNTIME_RUN(mode, cuMemAllocFromPoolAsync, (cu_deviceptr *)pointer, size, (cu_mem_pool)pool,
		    (cu_stream)stream);
}

RUNTIME_TWINS(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream), (pointer, stream))
{
	RUNTIME_RUN(mode, cuMemFreeAsync, (uintptr_t)pointer, (cu_stream)stream);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuIpcGetMemHandle, (cu_ipc_mem_handle *)handle,
		    (uintptr_t)pointer);
}

cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle, unsigned int flags)
{
	cu_ipc_mem_handle raw;

	_Static_assert(sizeof(raw) == sizeof(handle), "one handle");
	memcpy(&raw, &handle, sizeof(raw));
	RUNTIME_RUN(RUNTIME_LEGACY, cuIpcOpenMemHandle, (cu_deviceptr *)pointer, raw, flags);
}

cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
	RUNTIME_RUN(RUNTIME_LEGACY, cuIpcCloseMemHandle, (uintptr_t)pointer);
}
