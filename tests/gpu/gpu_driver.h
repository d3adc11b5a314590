/* SPDX-License-Identifier: MIT */
#ifndef TESTS_GPU_GPU_DRIVER_H
#define TESTS_GPU_GPU_DRIVER_H
/* The driver as an ordinary program finds it, and a clock. For programs of one file. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda/cuda_abi.h"

/* clang-format off */
#define GPU_CALLS(N) \
	N(cuInit) N(cuDeviceGet) N(cuDevicePrimaryCtxRetain) N(cuCtxSetCurrent) N(cuMemAlloc_v2) \
	N(cuMemFree_v2) N(cuMemHostAlloc) N(cuMemFreeHost) N(cuMemcpyDtoH_v2) N(cuMemcpyHtoD_v2) \
	N(cuMemsetD8_v2) N(cuCtxSynchronize) N(cuMemHostRegister_v2) \
	N(cuMemHostGetDevicePointer_v2) N(cuStreamWaitValue64_v2) N(cuStreamWriteValue64_v2)
/* clang-format on */

static struct {
#define N(name) cu_##name##_call *name;
	GPU_CALLS(N)
#undef N
} gpu;

static inline void gpu_must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: CUDA error %d\n", what, result);
	exit(1);
}

/* Find every call of the list, and make device 0's primary context current. */
static inline void gpu_start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_context context;
	cu_device device;

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
#define N(name) \
	gpu.name = (cu_##name##_call *)dlsym(library, #name); \
	gpu_must(gpu.name == NULL, "dlsym of " #name);
	GPU_CALLS(N)
#undef N
	gpu_must(gpu.cuInit(0), "cuInit");
	gpu_must(gpu.cuDeviceGet(&device, 0), "cuDeviceGet");
	gpu_must(gpu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	gpu_must(gpu.cuCtxSetCurrent(context), "cuCtxSetCurrent");
}

static inline double clock_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline int clock_compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

/* Sorts `times`. */
static inline double clock_median(double *times, size_t count)
{
	qsort(times, count, sizeof(*times), clock_compare);
	return times[count / 2];
}

#endif
