/* SPDX-License-Identifier: MIT */
/* Linked against the shared runtime. */
#include <cuda_runtime_api.h>

#include "calls.h"

static int alloc(uint64_t *out_pointer)
{
	return cudaMalloc((void **)out_pointer, CALLS_SIZE);
}

static int release(uint64_t pointer)
{
	return cudaFree((void *)(uintptr_t)pointer);
}

static int alloc_async(uint64_t *out_pointer)
{
	return cudaMallocAsync((void **)out_pointer, CALLS_SIZE, NULL);
}

static int release_async(uint64_t pointer)
{
	return cudaFreeAsync((void *)(uintptr_t)pointer, NULL);
}

const struct calls *way_find(void)
{
	static const struct calls calls[] = {
	    {"cudaMalloc", alloc, release},
	    {"cudaMallocAsync", alloc_async, release_async},
	    {NULL, NULL, NULL},
	};

	return calls;
}
