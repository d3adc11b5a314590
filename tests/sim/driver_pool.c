/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory, and the one pool that each device has. */
#include "driver_stream.h"

struct cu_mem_pool_opaque {
	char unused;
};

static struct cu_mem_pool_opaque pools[SIM_DEVICES_MAX];

cu_mem_pool pool_of(const struct region *region)
{
	return region->kind == REGION_ASYNC ? &pools[region->device] : NULL;
}

static cu_result pool_default(cu_mem_pool *pool, cu_device device)
{
	if (!pool)
		return CU_INVALID_VALUE;
	if (!state_device_good(device))
		return CU_INVALID_DEVICE;
	*pool = &pools[device];
	return CU_OK;
}

cu_result cuDeviceGetDefaultMemPool(cu_mem_pool *pool, cu_device device)
{
	ANSWER(cuDeviceGetDefaultMemPool, NEED_INIT, pool_default(pool, device));
}

static cu_result pool_alloc(cu_deviceptr *pointer, uint64_t size, cu_mem_pool pool,
			    cu_stream stream)
{
	struct memory_want want = {.kind = REGION_ASYNC};

	while (want.device < state.device_count && pool != &pools[want.device])
		want.device++;
	if (want.device == state.device_count)
		return CU_INVALID_VALUE;
	state_lock();
	cu_stream found = stream_find(stream);
	struct capture *capture = found ? found->capture : NULL;
	cu_result result = !found    ? CU_INVALID_HANDLE
			   : capture ? capture_alloc(capture, pointer, size)
				     : CU_OK;
	pthread_mutex_unlock(&state.lock);
	return result != CU_OK || capture ? result : memory_take(pointer, size, &want);
}

static cu_result pool_free(cu_deviceptr pointer, cu_stream stream)
{
	if (!pointer)
		return CU_OK;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	if (found->capture)
		return capture_free(found->capture, pointer);
	struct region *region = region_exactly(pointer);
	if (!region || region->kind != REGION_ASYNC)
		return CU_INVALID_VALUE;
	memory_release(region);
	return CU_OK;
}

/* The twins are told apart in the log and in faults, and mean another stream by stream 0. */
#define POOL_CALLS(name, stream) \
	cu_result cuMemAllocAsync##name(cu_deviceptr *pointer, size_t size, cu_stream stream_) \
	{ \
		ANSWER_LOGGED(cuMemAllocAsync##name, NEED_CONTEXT, \
			      pool_alloc(pointer, size, &pools[context_device()], stream), \
			      answer_ == CU_OK ? *pointer : 0, size); \
	} \
\
	cu_result cuMemAllocFromPoolAsync##name(cu_deviceptr *pointer, size_t size, \
						cu_mem_pool pool, cu_stream stream_) \
	{ \
		ANSWER_LOGGED(cuMemAllocFromPoolAsync##name, NEED_CONTEXT, \
			      pool_alloc(pointer, size, pool, stream), \
			      answer_ == CU_OK ? *pointer : 0, size); \
	} \
\
	cu_result cuMemFreeAsync##name(cu_deviceptr pointer, cu_stream stream_) \
	{ \
		ANSWER_LOGGED(cuMemFreeAsync##name, NEED_CONTEXT, pool_free(pointer, stream), \
			      pointer, 0); \
	}
POOL_CALLS(, stream_)
POOL_CALLS(_ptsz, stream_ ? stream_ : STREAM_PER_THREAD)
