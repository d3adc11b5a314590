// SPDX-License-Identifier: MIT
/* A preloaded library that reports each call of cudaMalloc and dlclose and passes it on. */
#include <dlfcn.h>
#include <stdio.h>

int cudaMalloc(void **pointer, size_t size);

int cudaMalloc(void **pointer, size_t size)
{
	int (*real)(void **, size_t) = (int (*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");

	fprintf(stderr, "passing by: cudaMalloc\n");
	return real(pointer, size);
}

int dlclose(void *handle)
{
	int (*real)(void *) = (int (*)(void *))dlsym(RTLD_NEXT, "dlclose");

	fprintf(stderr, "passing by: dlclose\n");
	return real(handle);
}
