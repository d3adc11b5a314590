/* SPDX-License-Identifier: MIT */
/* dlopen and dlsym of every call, as in JAX and CuPy. */
#include <dlfcn.h>

#include "driver_calls.h"

const struct calls *way_find(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		return NULL;
#define N(name, bare, version) driver.name = (cu_##name##_call *)dlsym(library, #name);
	DRIVER_CALLS(N)
#undef N
	return driver_start();
}
