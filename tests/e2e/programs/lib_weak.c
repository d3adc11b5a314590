// SPDX-License-Identifier: MIT
/* A library that uses CUDA only if it is loaded: its references to driver and runtime are weak. */
#include <stdio.h>

#include "cuda/cuda_abi.h"

extern cu_cuInit_call cuInit __attribute__((weak));
extern cu_cuCtxGetDevice_call cuCtxGetDevice __attribute__((weak));
extern cu_cuMemAlloc_v2_call cuMemAlloc_v2 __attribute__((weak));
extern cu_cuMemFree_v2_call cuMemFree_v2 __attribute__((weak));
extern cu_cuGetProcAddress_v2_call cuGetProcAddress_v2 __attribute__((weak));
extern int cudaGetDeviceCount(int *count) __attribute__((weak));
extern int cudaMalloc(void **pointer, size_t size) __attribute__((weak));
extern int cudaFree(void *pointer) __attribute__((weak));

int weak_answers(void);

#define ANSWER(name, ...) \
	do { \
		if (!name) \
			printf("%s: absent\n", #name); \
		else \
			printf("%s: answers %d\n", #name, (int)name(__VA_ARGS__)); \
	} while (0)

int weak_answers(void)
{
	cu_deviceptr device_pointer = 0;
	void *pointer = NULL;
	int number = 0;

	ANSWER(cuInit, 0);
	ANSWER(cuCtxGetDevice, &number);
	ANSWER(cuMemAlloc_v2, &device_pointer, 1 << 20);
	ANSWER(cuMemFree_v2, 4096);
	ANSWER(cuGetProcAddress_v2, "cuInit", &pointer, 12000, 0, NULL);
	ANSWER(cudaGetDeviceCount, &number);
	ANSWER(cudaMalloc, &pointer, 1 << 20);
	ANSWER(cudaFree, &number);
	return device_pointer || pointer;
}
