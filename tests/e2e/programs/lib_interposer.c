// SPDX-License-Identifier: MIT
/*
 * A preloaded library in the classic style: it replaces cuMemAlloc_v2() and calls the next one. If
 * there is none, or if it finds itself, it ends the process with exit code 98.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/cuda_abi.h"

cu_cuMemAlloc_v2_call cuMemAlloc_v2;

static int depth;

static void *next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found || ++depth > 1) {
		fprintf(stderr, "interposer: %s: %s\n", name,
			found ? "found itself" : "nothing next");
		_exit(98);
	}
	return found;
}

cu_result cuMemAlloc_v2(cu_deviceptr *pointer, size_t size)
{
	cu_cuMemAlloc_v2_call *real = next("cuMemAlloc_v2");
	cu_result result = real(pointer, size);

	depth--;
	fprintf(stderr, "interposer: cuMemAlloc_v2\n");
	return result;
}
