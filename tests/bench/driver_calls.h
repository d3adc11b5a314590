/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_DRIVER_CALLS_H
#define TESTS_BENCH_DRIVER_CALLS_H
/*
 * The driver's allocations, through a table that each way of finding them fills. Include it once.
 */
#include <stdbool.h>

#include "calls.h"
#include "cuda/cuda_abi.h"

/* symbol, bare name and version for cuGetProcAddress */
/* clang-format off */
#define DRIVER_CALLS(N) \
	N(cuInit, "cuInit", 2000) N(cuMemAlloc_v2, "cuMemAlloc", 3020) \
	N(cuMemFree_v2, "cuMemFree", 3020) N(cuMemAllocAsync, "cuMemAllocAsync", 11020) \
	N(cuMemFreeAsync, "cuMemFreeAsync", 11020) N(cuMemCreate, "cuMemCreate", 10020) \
	N(cuMemRelease, "cuMemRelease", 10020)
/* clang-format on */

static struct {
#define N(name, bare, version) cu_##name##_call *name;
	DRIVER_CALLS(N)
#undef N
} driver;

static int alloc(uint64_t *out_pointer)
{
	return driver.cuMemAlloc_v2((cu_deviceptr *)out_pointer, CALLS_SIZE);
}

static int release(uint64_t pointer)
{
	return driver.cuMemFree_v2(pointer);
}

static int alloc_async(uint64_t *out_pointer)
{
	return driver.cuMemAllocAsync((cu_deviceptr *)out_pointer, CALLS_SIZE, NULL);
}

static int release_async(uint64_t pointer)
{
	return driver.cuMemFreeAsync(pointer, NULL);
}

static int create(uint64_t *out_handle)
{
	static const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .location = {.type = CU_LOCATION_DEVICE},
	};

	return driver.cuMemCreate((cu_mem_handle *)out_handle, CALLS_SIZE, &prop, 0);
}

static int release_handle(uint64_t handle)
{
	return driver.cuMemRelease(handle);
}

/* Call it when the table is filled. */
static inline const struct calls *driver_start(void)
{
	static const struct calls calls[] = {
	    {"cuMemAlloc", alloc, release},
	    {"cuMemAllocAsync", alloc_async, release_async},
	    {"cuMemCreate", create, release_handle},
	    {NULL, NULL, NULL},
	};

#define N(name, bare, version) \
	if (!driver.name) \
		return NULL;
	DRIVER_CALLS(N)
#undef N
	return driver.cuInit(0) == CU_OK ? calls : NULL;
}

#endif
