/* SPDX-License-Identifier: MIT */
/* Device memory: cuMemAlloc, cuMemAllocPitch, cuMemFree, cuMemGetInfo. */

#include "driver_stream.h"

#define MEMORY_PITCH 512u

/* Never return 0: an IPC handle with generation 0 is invalid. */
static uint32_t memory_generation(void)
{
	static uint32_t generation;

	if (!generation)
		generation = (uint32_t)address_nonce();
	generation += 2;
	return generation | 1;
}

cu_result memory_take(cu_deviceptr *pointer, uint64_t size, const struct memory_want *want)
{
	uint64_t offset;

	if (!pointer || !size)
		return CU_INVALID_VALUE;
	if (size > state.capacity)
		return CU_OUT_OF_MEMORY; /* before rounding up can overflow */
	STATE_LOCKED;
	pool_look();
	struct block *block = block_take(want, size, &offset);
	if (!block)
		return CU_OUT_OF_MEMORY;
	struct region region = {
	    .start = block->base + offset,
	    .size = size,
	    .kind = want->kind,
	    .device = want->device,
	    .context = want->kind == REGION_ASYNC ? NULL : context_current(),
	    .pool = want->pool,
	    .access = CU_ACCESS_READ_WRITE,
	    .owner = block,
	    .generation = memory_generation(),
	};
	if (!region_add(&region)) {
		block_give(block, offset, size);
		return CU_OUT_OF_MEMORY;
	}
	if (want->pool)
		pool_took(want->pool, size);
	*pointer = region.start;
	return CU_OK;
}

static cu_result memory_alloc(cu_deviceptr *pointer, uint64_t size)
{
	struct memory_want want = {REGION_DEVICE, context_device(), NULL};

	if (pointer && !size)
		*pointer = 0;
	return memory_take(pointer, size, &want);
}

cu_result cuMemAlloc_v2(cu_deviceptr *pointer, size_t size)
{
	ANSWER_LOGGED(cuMemAlloc_v2, NEED_NO_CAPTURE, memory_alloc(pointer, size),
		      answer_ == CU_OK ? *pointer : 0, size);
}

CALL_LOGGED(cuMemAllocPitch_v2, NEED_NO_CAPTURE,
	    (cu_deviceptr * pointer, size_t *pitch, size_t width, size_t height,
	     unsigned int element),
	    (pointer, pitch, width, height, element), answer_ == CU_OK ? *pointer : 0,
	    answer_ == CU_OK ? *pitch * height : 0)
{
	size_t row, size;

	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CU_INVALID_VALUE;
	if (__builtin_add_overflow(width, MEMORY_PITCH - 1, &row))
		return CU_OUT_OF_MEMORY;
	row &= ~(size_t)(MEMORY_PITCH - 1);
	if (__builtin_mul_overflow(row, height, &size))
		return CU_OUT_OF_MEMORY;
	cu_result result = memory_alloc(pointer, size);
	if (result == CU_OK)
		*pitch = row;
	return result;
}

/* Under the lock. */
void memory_release(struct region *region)
{
	struct block *block = region->owner;

	block_give(block, region->start - block->base, region->size);
	region_remove(region);
}

static bool memory_freeable(const struct region *region)
{
	return region && !pool_has_freed(region) &&
	       (region->kind == REGION_DEVICE || region->kind == REGION_ASYNC ||
		region->kind == REGION_MANAGED);
}

/* As the real driver does, wait first for the work of all streams. */
cu_result memory_free(cu_deviceptr pointer)
{
	if (!pointer)
		return CU_OK;
	int cancelling = state_lock();
	bool good = memory_freeable(region_exactly(pointer));
	state_unlock(&cancelling);
	if (!good)
		return CU_INVALID_VALUE;
	wait_for_all();
	STATE_LOCKED;
	struct region *region = region_exactly(pointer);
	if (!memory_freeable(region))
		return CU_INVALID_VALUE; /* another thread has freed it meanwhile */
	if (region->kind == REGION_MANAGED)
		return host_free(region);
	if (region->pool)
		pool_lost(region);
	memory_release(region);
	return CU_OK;
}

cu_result cuMemFree_v2(cu_deviceptr pointer)
{
	ANSWER_LOGGED(cuMemFree_v2, NEED_NO_DEAD, memory_free(pointer), pointer, 0);
}

CALL(cuMemGetInfo_v2, NEED_CONTEXT, (size_t * free_bytes, size_t *total), (free_bytes, total))
{
	if (!free_bytes || !total)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	pool_look();
	cu_device device = context_device();
	*free_bytes = state.capacity - state.used[device] + block_cached(device);
	*total = state.capacity;
	return CU_OK;
}
