// SPDX-License-Identifier: MIT
/* A library whose constructor, under the loader's lock, waits for a thread that allocates. */
#include <pthread.h>
#include <stdio.h>

#include "cuda/cuda_abi.h"

extern cu_cuInit_call cuInit;
extern cu_cuDevicePrimaryCtxRetain_call cuDevicePrimaryCtxRetain;
extern cu_cuCtxSetCurrent_call cuCtxSetCurrent;
extern cu_cuMemAlloc_v2_call cuMemAlloc_v2;

static void *allocate(void *unused)
{
	cu_context context = NULL;
	cu_deviceptr pointer;
	cu_result result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(&context, 0);
	if (!result)
		result = cuCtxSetCurrent(context);
	if (!result)
		result = cuMemAlloc_v2(&pointer, 1 << 20);
	return (void *)(intptr_t)result;
}

__attribute__((constructor)) static void join(void)
{
	void *result = NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, allocate, NULL) || pthread_join(thread, &result))
		result = (void *)-1;
	printf("joined: %d\n", (int)(intptr_t)result);
}
