/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_SIM_CALLS_H
#define GPUSHARE_TESTS_SIM_SIM_CALLS_H
/* The simulated driver's calls, for its tests. Include after cmocka.h. */
#include "cuda/cuda_abi.h"
#include "sim_child.h"

static struct {
#define F(since, version, name, params) cu_##name##_call *name;
	CUDA_ABI_CALLS(F)
#undef F
} cu;

static void *library;

static inline void load(const char *name)
{
	library = child_load(name);
#define F(since, version, call, params) *(void **)&cu.call = dlsym(library, #call);
	CUDA_ABI_CALLS(F)
#undef F
}

static inline void start(void)
{
	cu_context context;

	load("libcuda.so.1");
	CHECK(cu.cuInit(0) == CU_OK);
	CHECK(cu.cuDevicePrimaryCtxRetain(&context, 0) == CU_OK);
	CHECK(cu.cuCtxSetCurrent(context) == CU_OK);
}

#endif
