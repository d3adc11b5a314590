// SPDX-License-Identifier: MIT
/*
 * A runtime program that allocates by driver calls, which it gets from cudaGetDriverEntryPoint().
 * The first argument is the flags for that: 0, 1 (legacy stream), 2 (per-thread default stream).
 */
#include <cuda_runtime_api.h>

#include "cuda/cuda_abi.h"
#include "gpu_script.h"

/* cudaGetDriverEntryPoint() is deprecated in CUDA 13, but programs still use it. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static unsigned long long flags;

static void *entry(const char *name)
{
	enum cudaDriverEntryPointQueryResult status;
	void *found = NULL;

	if (cudaGetDriverEntryPoint(name, &found, flags, &status) || status)
		script_stop("no entry point");
	return found;
}

static int entry_init(void)
{
	return (int)cudaFree(NULL);
}

static int entry_alloc(uint64_t *out_pointer, size_t size)
{
	cu_cuMemAlloc_v2_call *alloc = (cu_cuMemAlloc_v2_call *)entry("cuMemAlloc");
	cu_deviceptr pointer = 0;
	cu_result result;

	errno = GPU_ERRNO;
	result = alloc(&pointer, size);
	*out_pointer = pointer;
	return result;
}

static int entry_free(uint64_t pointer)
{
	return ((cu_cuMemFree_v2_call *)entry("cuMemFree"))(pointer);
}

static int entry_write(uint64_t to, const void *from, size_t size)
{
	return (int)cudaMemcpy((void *)(uintptr_t)to, from, size, cudaMemcpyHostToDevice);
}

static int entry_read(void *to, uint64_t from, size_t size)
{
	return (int)cudaMemcpy(to, (const void *)(uintptr_t)from, size, cudaMemcpyDeviceToHost);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	flags = script_number(argv[1]);
	gpu = (struct gpu){.init = entry_init,
			   .alloc = entry_alloc,
			   .free = entry_free,
			   .write = entry_write,
			   .read = entry_read};
	return script_run(argv + 2);
}
