/* SPDX-License-Identifier: MIT */
/* Proof 2 of 2: with the toolkit's types, each of our prototypes equals the toolkit's. */
#define __CUDA_API_VERSION_INTERNAL /* declares every version of a call under its own name */
#include <cuda.h>

#define CUDA_ABI_TYPES_FROM_TOOLKIT
#include "cuda_abi.h"

/* cuda.h does not declare calls newer than itself. Compare such a call with itself, so that one
 * macro serves all. */
#if CUDA_VERSION < 11040
#define cuDeviceGetUuid_v2 ((cu_cuDeviceGetUuid_v2_call *)0)
#endif
#if CUDA_VERSION < 11070
#define cuStreamWaitValue32_v2 ((cu_cuStreamWaitValue32_v2_call *)0)
#define cuStreamWaitValue64_v2 ((cu_cuStreamWaitValue64_v2_call *)0)
#define cuStreamWriteValue64_v2 ((cu_cuStreamWriteValue64_v2_call *)0)
#define cuMemGetHandleForAddressRange ((cu_cuMemGetHandleForAddressRange_call *)0)
#endif
#if CUDA_VERSION < 12000
#define cuGetProcAddress_v2 ((cu_cuGetProcAddress_v2_call *)0)
#define cuStreamGetId ((cu_cuStreamGetId_call *)0)
#endif
#if CUDA_VERSION < 13000
#define cuCtxSynchronize_v2 ((cu_cuCtxSynchronize_v2_call *)0)
#endif
/* cuda.h declares the _ptsz variants of some calls under no name of their own. */
#define cuMemPrefetchAsync_v2_ptsz ((cu_cuMemPrefetchAsync_v2_ptsz_call *)0)
#define cuStreamAttachMemAsync_ptsz ((cu_cuStreamAttachMemAsync_ptsz_call *)0)
#if CUDA_VERSION < 12020
#define cuMemPrefetchAsync_v2 ((cu_cuMemPrefetchAsync_v2_call *)0)
#define cuMemAdvise_v2 ((cu_cuMemAdvise_v2_call *)0)
#endif
#define F(since, version, name, params) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(*(name)), cu_##name##_call), #name);
CUDA_ABI_CALLS(F)
#undef F
