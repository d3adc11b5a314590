// SPDX-License-Identifier: MIT
/* A plug-in with a runtime of its own: built with the static and with the shared one. */
#include <cuda_runtime_api.h>

int runtime_alloc(void);
int runtime_free(void);

static void *pointer;
static volatile int made;

int runtime_alloc(void)
{
	int code = (int)cudaMalloc(&pointer, 4 << 20);

	made += !code; /* no tail call: it is this library that calls */
	return code;
}

int runtime_free(void)
{
	return (int)cudaFree(pointer);
}
