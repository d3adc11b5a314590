/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_APP_DRIVER_H
#define TESTS_E2E_APP_DRIVER_H
/* How a plain driver program starts: it isn't linked against libcuda, so it loads libcuda and looks
 * up its calls. It retains the first GPU's primary context. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda_abi.h"

static cu_cuMemAlloc_v2_call *alloc;
static cu_cuMemFree_v2_call *release;
static cu_cuCtxSetCurrent_call *set_current;
static cu_context context;

static void must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %d\n", what, result);
	exit(1);
}

static void *find(void *library, const char *symbol)
{
	void *found = dlsym(library, symbol);

	must(!found, symbol);
	return found;
}

/* Return the handle of libcuda, for more look-ups. */
static void *start(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device;

	must(!library, "libcuda.so.1");
	must(((cu_cuInit_call *)find(library, "cuInit"))(0), "cuInit");
	must(((cu_cuDeviceGet_call *)find(library, "cuDeviceGet"))(&device, 0), "cuDeviceGet");
	must(((cu_cuDevicePrimaryCtxRetain_call *)find(library, "cuDevicePrimaryCtxRetain"))(
		 &context, device),
	     "cuDevicePrimaryCtxRetain");
	set_current = (cu_cuCtxSetCurrent_call *)find(library, "cuCtxSetCurrent");
	alloc = (cu_cuMemAlloc_v2_call *)find(library, "cuMemAlloc_v2");
	release = (cu_cuMemFree_v2_call *)find(library, "cuMemFree_v2");
	return library;
}

#endif
