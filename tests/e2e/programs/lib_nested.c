// SPDX-License-Identifier: MIT
/* A preloaded library that replaces cuMemAlloc_v2(): it calls the one that dlsym() finds in
 * libcuda, with twice the size. */
#include <dlfcn.h>

#include "cuda/cuda_abi.h"

cu_cuMemAlloc_v2_call cuMemAlloc_v2;

cu_result cuMemAlloc_v2(cu_deviceptr *pointer, size_t size)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	cu_cuMemAlloc_v2_call *next = (cu_cuMemAlloc_v2_call *)dlsym(library, "cuMemAlloc_v2");

	return next(pointer, 2 * size);
}
