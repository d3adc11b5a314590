/* SPDX-License-Identifier: MIT */
/* Proof 2 of 2: each prototype of ours, over the toolkit's types, is the toolkit's prototype. */
#define __CUDA_API_VERSION_INTERNAL /* declares every version of a call under its own name */
#include <cuda.h>

#define CUDA_ABI_TYPES_FROM_TOOLKIT
#include "cuda_abi.h"

/* A call newer than the toolkit is not declared: comparing it with itself keeps one line for all. */
#if CUDA_VERSION < 11040
#define cuDeviceGetUuid_v2 ((cu_cuDeviceGetUuid_v2_call *)0)
#endif
#if CUDA_VERSION < 11070
#define cuStreamWaitValue32_v2 ((cu_cuStreamWaitValue32_v2_call *)0)
#define cuMemGetHandleForAddressRange ((cu_cuMemGetHandleForAddressRange_call *)0)
#endif
#if CUDA_VERSION < 12000
#define cuGetProcAddress_v2 ((cu_cuGetProcAddress_v2_call *)0)
#endif
#define F(since, version, name, params) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(*(name)), cu_##name##_call), #name);
CUDA_ABI_CALLS(F)
#undef F
