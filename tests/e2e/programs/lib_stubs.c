// SPDX-License-Identifier: MIT
/* Unrelated functions with names of the driver or the runtime, or similar names. */
#define STUBS(S) \
	S(cudnnCreate, 1) \
	S(cuMemAllocSomething, 2) \
	S(custom, 3) \
	S(cuda, 4) \
	S(cuGetProcAddress_v3, 5) \
	S(cuMemAlloc_v, 6) \
	S(cuMemAlloc_v2_ptsz, 7) \
	S(cuM, 8) \
	S(CuMemAlloc_v2, 9) \
	S(cuMemAlloc_v2, 10) \
	S(cuMemFree_v2, 11) \
	S(cuGetProcAddress, 12) \
	S(cuGetProcAddress_v2, 13) \
	S(cudaMalloc, 14) \
	S(cudaFree, 15)

#define S(name, value) \
	int name(void); \
	int name(void) \
	{ \
		return value; \
	}
STUBS(S)
#undef S
