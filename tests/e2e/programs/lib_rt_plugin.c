// SPDX-License-Identifier: MIT
/* A plug-in that uses the CUDA runtime; built once with the static and once with the shared one. */
#include <cuda_runtime_api.h>

int runtime_alloc(void);
int runtime_free(void);

static void *pointer;
static volatile int made;

int runtime_alloc(void)
{
	int code = (int)cudaMalloc(&pointer, 4 << 20);

	made += !code; /* no tail call: the caller's address must be in this library */
	return code;
}

int runtime_free(void)
{
	return (int)cudaFree(pointer);
}
