// SPDX-License-Identifier: MIT
/*
 * `drv_cancel COUNT SIZE [HELD]`: COUNT threads run, one after another. Each allocates and frees
 * SIZE bytes in a loop until it is cancelled, at a moment that differs from thread to thread. Each
 * holds another HELD bytes. When it ends, its cleanup handlers free what it holds.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cuda/cuda_abi.h"

#define CALLS(N) \
	N(cuInit) \
	N(cuDeviceGet) \
	N(cuDevicePrimaryCtxRetain) \
	N(cuCtxSetCurrent) \
	N(cuMemAlloc_v2) \
	N(cuMemFree_v2) \
	N(cuMemGetAddressRange_v2)

static struct {
#define N(call) cu_##call##_call *call;
	CALLS(N)
#undef N
} drv;

static cu_context context;
static size_t size, held_size;
static atomic_uint turns;

static void must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "drv_cancel: %s\n", what);
	exit(1);
}
#define MUST(call) must((call) == CU_OK, #call)

static void start_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	cu_device device;

	must(library != NULL, "libcuda.so.1");
#define N(call) must((drv.call = (cu_##call##_call *)dlsym(library, #call)) != NULL, #call);
	CALLS(N)
#undef N
	MUST(drv.cuInit(0));
	MUST(drv.cuDeviceGet(&device, 0));
	MUST(drv.cuDevicePrimaryCtxRetain(&context, device));
	MUST(drv.cuCtxSetCurrent(context));
}

static void give_back(void *pointer)
{
	if (*(cu_deviceptr *)pointer)
		MUST(drv.cuMemFree_v2(*(cu_deviceptr *)pointer));
}

static void *work(void *unused)
{
	cu_deviceptr pointer = 0, held = 0, base;
	size_t room;

	MUST(drv.cuCtxSetCurrent(context));
	if (held_size)
		MUST(drv.cuMemAlloc_v2(&held, held_size));
	pthread_cleanup_push(give_back, &held);
	pthread_cleanup_push(give_back, &pointer);
	for (;;) {
		MUST(drv.cuMemAlloc_v2(&pointer, size));
		MUST(drv.cuMemGetAddressRange_v2(&base, &room, pointer));
		base = pointer;
		pointer = 0;
		MUST(drv.cuMemFree_v2(base));
		atomic_fetch_add(&turns, 1);
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return NULL;
}

int main(int count, char **argument)
{
	long threads = count > 2 ? strtol(argument[1], NULL, 10) : 0;
	cu_deviceptr pointer;

	must(threads > 0, "COUNT SIZE");
	size = strtoul(argument[2], NULL, 10);
	held_size = count > 3 ? strtoul(argument[3], NULL, 10) : 0;
	start_cuda();
	for (long i = 0; i < threads; i++) {
		struct timespec moment = {0, i * 7919 % 1000 * 2000};
		unsigned int before = turns;
		pthread_t thread;
		void *result;

		must(!pthread_create(&thread, NULL, work, NULL), "pthread_create");
		while (turns == before)
			sched_yield();
		nanosleep(&moment, NULL);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		must(result == PTHREAD_CANCELED, "a thread that was not cancelled");
	}
	MUST(drv.cuMemAlloc_v2(&pointer, size));
	printf("allocates\n");
	fflush(stdout);
	getchar();
	MUST(drv.cuMemFree_v2(pointer));
	return 0;
}
