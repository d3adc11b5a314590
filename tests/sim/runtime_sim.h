/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_RUNTIME_SIM_H
#define GPUSHARE_TESTS_SIM_RUNTIME_SIM_H
/* Shared declarations of the stand-in runtime's files. */
#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include <cuda_runtime_api.h>
/* T(name, suffix): calls with a twin for the per-thread default stream. */
#define RUNTIME_PER_THREAD(T) \
	T(cudaMemcpy, _ptds) \
	T(cudaMemcpy2D, _ptds) \
	T(cudaMemset, _ptds) \
	T(cudaMallocAsync, _ptsz) \
	T(cudaMallocFromPoolAsync, _ptsz) \
	T(cudaFreeAsync, _ptsz) \
	T(cudaMemcpyAsync, _ptsz) \
	T(cudaMemsetAsync, _ptsz) \
	T(cudaStreamSynchronize, _ptsz) \
	T(cudaStreamBeginCapture, _ptsz) \
	T(cudaStreamEndCapture, _ptsz) \
	T(cudaEventRecord, _ptsz) \
	T(cudaGetDriverEntryPoint, _ptsz)
/* Under CUDA_API_PER_THREAD_DEFAULT_STREAM the toolkit's header maps calls to these names. */
#define T(name, suffix) __typeof__(name) name##suffix;
RUNTIME_PER_THREAD(T)
#undef T
#pragma GCC visibility pop

#include "cuda/cuda_abi.h"

/* R(name to look up, version to look up, symbol for a plain dlsym) */
#define RUNTIME_CALLS(R) \
	R(cuInit, 2000, cuInit) \
	R(cuDeviceGetCount, 2000, cuDeviceGetCount) \
	R(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain) \
	R(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2) \
	R(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2) \
	R(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool) \
	R(cuCtxSetCurrent, 4000, cuCtxSetCurrent) \
	R(cuCtxGetCurrent, 4000, cuCtxGetCurrent) \
	R(cuCtxGetDevice, 2000, cuCtxGetDevice) \
	R(cuCtxSynchronize, 2000, cuCtxSynchronize) \
	R(cuMemAlloc, 3020, cuMemAlloc_v2) \
	R(cuMemAllocPitch, 3020, cuMemAllocPitch_v2) \
	R(cuMemFree, 3020, cuMemFree_v2) \
	R(cuMemAllocManaged, 6000, cuMemAllocManaged) \
	R(cuMemAllocAsync, 11020, cuMemAllocAsync) \
	R(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync) \
	R(cuMemFreeAsync, 11020, cuMemFreeAsync) \
	R(cuMemcpyHtoD, 3020, cuMemcpyHtoD_v2) \
	R(cuMemcpyDtoH, 3020, cuMemcpyDtoH_v2) \
	R(cuMemcpyDtoD, 3020, cuMemcpyDtoD_v2) \
	R(cuMemcpy, 4000, cuMemcpy) \
	R(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2) \
	R(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2) \
	R(cuMemcpyAsync, 4000, cuMemcpyAsync) \
	R(cuMemsetD8, 3020, cuMemsetD8_v2) \
	R(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle) \
	R(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2) \
	R(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle) \
	R(cuStreamCreate, 2000, cuStreamCreate) \
	R(cuStreamSynchronize, 2000, cuStreamSynchronize) \
	R(cuStreamDestroy, 4000, cuStreamDestroy_v2) \
	R(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2) \
	R(cuStreamEndCapture, 10000, cuStreamEndCapture) \
	R(cuGraphDestroy, 10000, cuGraphDestroy) \
	R(cuEventCreate, 2000, cuEventCreate) \
	R(cuEventRecord, 2000, cuEventRecord) \
	R(cuEventSynchronize, 2000, cuEventSynchronize) \
	R(cuEventDestroy, 4000, cuEventDestroy_v2)

struct runtime_table {
#define R(name, version, symbol) cu_##symbol##_call *name;
	RUNTIME_CALLS(R)
#undef R
};

enum runtime_stream { RUNTIME_LEGACY, RUNTIME_PER_THREAD };

/* The declarations below are hidden, whatever -fvisibility says. */
#pragma GCC visibility push(hidden)
/* runtime_lookup.c: the driver's entry points, as the chosen cudart finds them. */
cudaError_t runtime_lookup(const struct runtime_table **table, enum runtime_stream stream);
cudaError_t runtime_lookup_entry(const char *symbol, void **pointer, int version, uint64_t flags,
				 int *status);
int runtime_lookup_version(void);

/* runtime_device.c: make a context current, which most calls need, and return the entry points. */
cudaError_t runtime_ready(const struct runtime_table **table, enum runtime_stream stream);

/* runtime_error.c: remember an error for cudaGetLastError. */
cudaError_t runtime_note(cudaError_t error);
#pragma GCC visibility pop

/* A call, and its twin for the per-thread default stream, with the function body that follows.
 * `mode` says there which stream 0 is. `arguments` names the `parameters`. */
#define RUNTIME_TWINS(name, suffix, parameters, arguments) \
	static cudaError_t name##_by(enum runtime_stream mode, RUNTIME_LISTED parameters); \
	cudaError_t name parameters \
	{ \
		return name##_by(RUNTIME_LEGACY, RUNTIME_LISTED arguments); \
	} \
	cudaError_t name##suffix parameters \
	{ \
		return name##_by(RUNTIME_PER_THREAD, RUNTIME_LISTED arguments); \
	} \
	static cudaError_t name##_by(enum runtime_stream mode, RUNTIME_LISTED parameters)
#define RUNTIME_LISTED(...) __VA_ARGS__

/* Body of a call that makes one driver call. If the driver lacks the entry point, it is too old. */
#define RUNTIME_RUN(stream, name, ...) \
	do { \
		const struct runtime_table *table; \
		cudaError_t error_ = runtime_ready(&table, stream); \
		if (error_ == cudaSuccess) \
			error_ = table->name ? (cudaError_t)table->name(__VA_ARGS__) \
					     : cudaErrorCallRequiresNewerDriver; \
		return runtime_note(error_); \
	} while (0)

#endif
