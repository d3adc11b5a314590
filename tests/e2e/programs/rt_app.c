// SPDX-License-Identifier: MIT
/* A plain CUDA runtime program. See script.h for how it is told what to do. */
#include <cuda_runtime_api.h>

#include "gpu_script.h"

static int runtime_init(void)
{
	return (int)cudaFree(NULL);
}

static int runtime_device(int ordinal)
{
	return (int)cudaSetDevice(ordinal);
}

static int runtime_alloc(uint64_t *out_pointer, size_t size)
{
	void *pointer = NULL;
	int code = (int)cudaMalloc(&pointer, size);

	*out_pointer = (uint64_t)(uintptr_t)pointer;
	return code;
}

static int runtime_pitch(uint64_t *out_pointer, size_t *out_pitch, size_t width, size_t height)
{
	void *pointer = NULL;
	int code = (int)cudaMallocPitch(&pointer, out_pitch, width, height);

	*out_pointer = (uint64_t)(uintptr_t)pointer;
	return code;
}

static int runtime_free(uint64_t pointer)
{
	return (int)cudaFree((void *)(uintptr_t)pointer);
}

static int runtime_write(uint64_t to, const void *from, size_t size)
{
	return (int)cudaMemcpy((void *)(uintptr_t)to, from, size, cudaMemcpyHostToDevice);
}

static int runtime_read(void *to, uint64_t from, size_t size)
{
	return (int)cudaMemcpy(to, (const void *)(uintptr_t)from, size, cudaMemcpyDeviceToHost);
}

int main(int argc, char **argv)
{
	(void)argc;
	gpu = (struct gpu){runtime_init, runtime_device, runtime_alloc, runtime_pitch,
			   runtime_free, runtime_write,	 runtime_read};
	return script_run(gpu_verbs, argv + 1);
}
