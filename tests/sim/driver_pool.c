/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory, and the one pool that each device has. */
#include <stdlib.h>

#include "driver_stream.h"

struct cu_mem_pool_opaque {
	char unused;
};

/* Freed behind a stream that was held up: it goes when somebody asks after the stream went on. */
struct freed {
	struct freed *next;
	uint64_t start;
	uint32_t generation;
	struct wait *until;
	cu_stream plain; /* of memory of cuMemAlloc: the stream that has to live until then */
};

static struct freed *freed;

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
				     : stream_use(found);
	pthread_mutex_unlock(&state.lock);
	if (result == CU_OK && !capture)
		result = capture_permits();
	return result != CU_OK || capture ? result : memory_take(pointer, size, &want);
}

bool pool_has_freed(const struct region *region)
{
	for (const struct freed *one = freed; one; one = one->next) {
		if (one->start == region->start && one->generation == region->generation)
			return true;
	}
	return false;
}

void pool_look(void)
{
	struct freed **link = &freed, *one;

	wait_look();
	while ((one = *link)) {
		struct region *region = region_exactly(one->start);

		if (!wait_over(one->until)) {
			link = &one->next;
			continue;
		}
		if (region && region->generation == one->generation) /* else its context went */
			memory_release(region);
		*link = one->next;
		wait_drop(one->until);
		free(one);
	}
}

void pool_keep_of(cu_stream stream)
{
	struct freed **link = &freed, *one;

	while ((one = *link)) {
		if (one->plain != stream) {
			link = &one->next;
			continue;
		}
		*link = one->next;
		wait_drop(one->until);
		free(one);
	}
}

static cu_result pool_free_behind(const struct region *region, struct wait *until, cu_stream stream)
{
	struct freed *made = malloc(sizeof(*made));

	if (!made) {
		wait_drop(until);
		return CU_OUT_OF_MEMORY;
	}
	*made = (struct freed){freed, region->start, region->generation, until,
			       region->kind == REGION_DEVICE ? stream : NULL};
	freed = made;
	return CU_OK;
}

/* Memory of cuMemAlloc behind a stream that is held up, and to no end. */
static bool pool_takes_again(const struct region *region)
{
	wait_look();
	for (const struct freed *one = freed; one; one = one->next) {
		if (one->start == region->start && one->generation == region->generation)
			return one->plain && !wait_over(one->until);
	}
	return false;
}

/* Takes cuMemAlloc memory too, which goes with a later call, and not at all if its stream goes before. */
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
	if (stream_use(found) != CU_OK)
		return (cu_result)STREAM_CAPTURE_IMPLICIT;
	struct region *region = region_exactly(pointer);
	if (region && region->kind == REGION_MANAGED)
		return CU_NOT_SUPPORTED;
	if (!region || (region->kind != REGION_ASYNC && region->kind != REGION_DEVICE))
		return CU_INVALID_VALUE;
	if (pool_has_freed(region))
		return pool_takes_again(region) ? CU_OK : CU_INVALID_VALUE;
	struct wait *tail = stream_tail(found);
	bool plain = region->kind == REGION_DEVICE;
	cu_result result = pool_free_behind(region, tail, found);
	if (!plain)
		pool_look();
	return result;
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
