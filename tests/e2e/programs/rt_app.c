// SPDX-License-Identifier: MIT
/* A plain CUDA runtime program, driven by a script: see script.h. */
#include <cuda_runtime_api.h>

#include "drv_calls.h"

/* Driver calls, which cudaGetDriverEntryPoint() finds: for the ways entry-WAY, and for verbs that
 * the runtime has no call for. */
#define ENTRIES(N) N(cuMemAlloc_v2) N(cuMemAllocPitch_v2) N(cuMemFree_v2) DRV_CALLS_WAYS(N)
static struct {
#define N(call) cu_##call##_call *call;
	ENTRIES(N)
#undef N
} drv;

#define DRV(call) drv.call
#include "drv_streams.h"
#include "gpu_many.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cudaGetDriverEntryPoint */

static unsigned long long entry_flags = cudaEnableDefault;

/* entries=FLAGS, before init: 0, 1 (legacy stream), 2 (per-thread default stream) */
VERB(entries, 1, 1)
{
	entry_flags = script_number(argument[0]);
}

static void find_entry(void **call, const char *symbol)
{
	enum cudaDriverEntryPointQueryResult status;
	char bare[64];

	snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(symbol, "_"), symbol);
	if (cudaGetDriverEntryPoint(bare, call, entry_flags, &status) || status || !*call)
		*call = (void *)drv_not_found;
}

/* Stands in for cuCtxGetDevice: from CUDA 13 on, the runtime finds another call of that name, which
 * also takes a context. */
static cu_result current_device(cu_device *out_device)
{
	return (cu_result)cudaGetDevice(out_device);
}

static int runtime_init(void)
{
	int code = (int)cudaFree(NULL);

	if (code)
		return code;
#define N(call) find_entry((void **)&drv.call, #call);
	ENTRIES(N)
#undef N
	drv.cuCtxGetDevice = current_device;
	return 0;
}

static int runtime_device(int ordinal)
{
	return (int)cudaSetDevice(ordinal);
}

static int runtime_alloc(uint64_t *out_pointer, size_t size)
{
	void *pointer = NULL;
	int code = (int)cudaMalloc(&pointer, size);

	*out_pointer = (uint64_t)(uintptr_t)pointer;
	return code;
}

static int runtime_pitch(uint64_t *out_pointer, size_t *out_pitch, size_t width, size_t height)
{
	void *pointer = NULL;
	int code = (int)cudaMallocPitch(&pointer, out_pitch, width, height);

	*out_pointer = (uint64_t)(uintptr_t)pointer;
	return code;
}

static int runtime_free(uint64_t pointer)
{
	return (int)cudaFree((void *)(uintptr_t)pointer);
}

static int runtime_write(uint64_t to, const void *from, size_t size)
{
	return (int)cudaMemcpy((void *)(uintptr_t)to, from, size, cudaMemcpyHostToDevice);
}

static int runtime_read(void *to, uint64_t from, size_t size)
{
	return (int)cudaMemcpy(to, (const void *)(uintptr_t)from, size, cudaMemcpyDeviceToHost);
}

static int make_pool(void **pointer, size_t size, cudaStream_t stream)
{
	cudaMemPool_t pool = NULL;
	int code = (int)cudaDeviceGetDefaultMemPool(&pool, 0);

	return code ? code : (int)cudaMallocFromPoolAsync(pointer, size, pool, stream);
}

/* Allocate 64 rows, each with a 64th of the slot's size; make_3d(): 8 by 8 rows. */
static int make_pitch(void **pointer, struct gpu_slot *slot)
{
	size_t pitch = 0;
	int code = (int)cudaMallocPitch(pointer, &pitch, slot->size / 64, 64);

	slot->size = pitch * 64;
	return code;
}

static int make_3d(void **pointer, struct gpu_slot *slot)
{
	struct cudaExtent extent = {.width = slot->size / 64, .height = 8, .depth = 8};
	struct cudaPitchedPtr pitched = {0};
	int code = (int)cudaMalloc3D(&pitched, extent);

	*pointer = pitched.ptr;
	slot->size = pitched.pitch * 64;
	return code;
}

static int runtime_make(struct gpu_slot *slot, const char *way, char stream)
{
	cudaStream_t in = (cudaStream_t)drv_streams[stream & 127];
	void *pointer = NULL;
	int code = -1;

	if (!strncmp(way, "entry-", 6))
		return drv_ways_make(slot, way + 6, stream);
	if (!strcmp(way, "malloc"))
		code = (int)cudaMalloc(&pointer, slot->size);
	else if (!strcmp(way, "pitch"))
		code = make_pitch(&pointer, slot);
	else if (!strcmp(way, "3d"))
		code = make_3d(&pointer, slot);
	else if (!strcmp(way, "managed"))
		code = (int)cudaMallocManaged(&pointer, slot->size, cudaMemAttachGlobal);
	else if (!strcmp(way, "async"))
		code = (int)cudaMallocAsync(&pointer, slot->size, in);
	else if (!strcmp(way, "pool"))
		code = make_pool(&pointer, slot->size, in);
	else
		script_stop("make: no such way");
	slot->pointer = (uint64_t)(uintptr_t)pointer;
	return code;
}

static int runtime_drop(struct gpu_slot *slot, const char *way, char stream)
{
	void *pointer = (void *)(uintptr_t)slot->pointer;

	if (!strncmp(way, "entry-", 6))
		return drv_ways_drop(slot, way + 6, stream);
	if (!strcmp(way, "async") || !strcmp(way, "pool"))
		return (int)cudaFreeAsync(pointer, (cudaStream_t)drv_streams[stream & 127]);
	return (int)cudaFree(pointer);
}

VERB(devicereset, 0, 0)
{
	printf("devicereset: %d\n", (int)cudaDeviceReset());
}

VERB(nullout, 1, 1)
{
	gpu_say("nullout", argument[0], (int)cudaMalloc(NULL, script_number(argument[0])));
}

cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);

static int wait_for_event(void)
{
	cudaEvent_t event = NULL;
	int code = (int)cudaEventCreate(&event);

	if (!code)
		code = (int)cudaEventRecord(event, NULL);
	if (!code)
		code = (int)cudaEventSynchronize(event);
	cudaEventDestroy(event);
	return code;
}

/* wait=device, wait=stream, wait=thread (the thread's own default stream), wait=event */
VERB(wait, 1, 1)
{
	int code = -1;

	if (!strcmp(argument[0], "device"))
		code = (int)cudaDeviceSynchronize();
	else if (!strcmp(argument[0], "stream"))
		code = (int)cudaStreamSynchronize(NULL);
	else if (!strcmp(argument[0], "thread"))
		code = (int)cudaStreamSynchronize_ptsz(NULL);
	else if (!strcmp(argument[0], "event"))
		code = wait_for_event();
	else
		script_stop("wait: no such way");
	gpu_say("wait", argument[0], code);
}

static void *wait_often(void *count)
{
	for (uint64_t i = 0; i < *(uint64_t *)count; i++)
		if (cudaStreamSynchronize(NULL) != cudaSuccess)
			script_stop("cudaStreamSynchronize failed");
	return NULL;
}

/* waits=THREADS,COUNT: each thread synchronizes the default stream COUNT times */
VERB(waits, 2, 2)
{
	uint64_t threads = script_number(argument[0]), often = script_number(argument[1]);
	pthread_t thread[16];

	for (uint64_t i = 0; i < threads && i < 16; i++)
		if (pthread_create(&thread[i], NULL, wait_often, &often))
			script_stop("pthread_create failed");
	for (uint64_t i = 0; i < threads && i < 16; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	gpu =
	    (struct gpu){runtime_init,	runtime_device, runtime_alloc, runtime_pitch, runtime_free,
			 runtime_write, runtime_read,	runtime_make,  runtime_drop};
	return script_run(argv + 1);
}
