/* SPDX-License-Identifier: MIT */
/*
 * A CUDA runtime of four calls that finds the driver as cudart 13 does: one dlopen, one dlsym of
 * cuGetProcAddress_v2, and all other entry points by that pointer.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "cuda/cuda_abi.h"
#include "runtime.h"

#define DRIVER_MISSING 35 /* cudaErrorInsufficientDriver */

/* clang-format off */
#define RUNTIME_CALLS(N) \
	N(cuInit, "cuInit", 2000) N(cuMemAlloc_v2, "cuMemAlloc", 3020) \
	N(cuMemFree_v2, "cuMemFree", 3020) N(cuMemAllocAsync, "cuMemAllocAsync", 11020) \
	N(cuMemFreeAsync, "cuMemFreeAsync", 11020)
/* clang-format on */

static struct {
#define N(name, bare, version) cu_##name##_call *name;
	RUNTIME_CALLS(N)
#undef N
} driver;
static int loaded = DRIVER_MISSING;

static void load(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_cuGetProcAddress_v2_call *find =
	    library ? (cu_cuGetProcAddress_v2_call *)dlsym(library, "cuGetProcAddress_v2") : NULL;

	if (!find)
		return;
#define N(name, bare, version) \
	if (find(bare, (void **)&driver.name, version, CU_PROC_DEFAULT, NULL) != CU_OK || \
	    !driver.name) \
		return;
	RUNTIME_CALLS(N)
#undef N
	loaded = driver.cuInit(0);
}

static int ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	return loaded;
}

int cudaMalloc(void **pointer, size_t size)
{
	cu_deviceptr made;
	int result = ready();

	if (!result)
		result = driver.cuMemAlloc_v2(&made, size);
	if (!result)
		*pointer = (void *)(uintptr_t)made;
	return result;
}

int cudaFree(void *pointer)
{
	int result = ready();

	return result ? result : driver.cuMemFree_v2((uintptr_t)pointer);
}

int cudaMallocAsync(void **pointer, size_t size, cu_stream stream)
{
	cu_deviceptr made;
	int result = ready();

	if (!result)
		result = driver.cuMemAllocAsync(&made, size, stream);
	if (!result)
		*pointer = (void *)(uintptr_t)made;
	return result;
}

int cudaFreeAsync(void *pointer, cu_stream stream)
{
	int result = ready();

	return result ? result : driver.cuMemFreeAsync((uintptr_t)pointer, stream);
}
