/* SPDX-License-Identifier: MIT */
/* One dlsym of cuGetProcAddress_v2, which then finds every call. */
#include <dlfcn.h>

#include "driver_calls.h"

const struct calls *way_find(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_cuGetProcAddress_v2_call *find =
	    library ? (cu_cuGetProcAddress_v2_call *)dlsym(library, "cuGetProcAddress_v2") : NULL;

	if (!find)
		return NULL;
#define N(name, bare, version) \
	if (find(bare, (void **)&driver.name, version, CU_PROC_DEFAULT, NULL) != CU_OK) \
		return NULL;
	DRIVER_CALLS(N)
#undef N
	return driver_start();
}
