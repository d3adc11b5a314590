/* SPDX-License-Identifier: MIT */
#ifndef TESTS_E2E_API_CUDA_H
#define TESTS_E2E_API_CUDA_H
/* The driver for programs of the API that end at the first call that fails. */
#include <dlfcn.h>
#include <gpushare.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda_abi.h"

static struct {
#define F(since, version, name, params) cu_##name##_call *name;
	CUDA_ABI_CALLS(F)
#undef F
} cu;

static inline void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%d: %s: %s\n", (int)getpid(), what, gpushare_explain());
	exit(1);
}
#define MUST(call) must((call) == 0, #call)

static inline void *cuda_call(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

/* Load the driver, and make device 0's primary context current. */
static inline void cuda_start(void)
{
	cu_context context;
	cu_device device;

#define F(since, version, name, params) cu.name = (cu_##name##_call *)cuda_call(#name);
	CUDA_ABI_CALLS(F)
#undef F
	must(cu.cuInit != NULL, "libcuda.so.1");
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
	MUST(cu.cuCtxSetCurrent(context));
}

#endif
