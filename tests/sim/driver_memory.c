/* SPDX-License-Identifier: MIT */
/* Device memory: cuMemAlloc and its kin. */
#include <stdlib.h>
#include <string.h>

#include "driver_sim.h"

#define MEMORY_PITCH 512u

/* Never 0, so 0 in a block's table means: nothing starts here. */
static uint32_t memory_generation(void)
{
	static uint32_t generation;

	if (!generation)
		generation = (uint32_t)address_nonce();
	generation += 2;
	return generation | 1;
}

static cu_result memory_alloc_kind(cu_deviceptr *pointer, uint64_t size, bool low,
				   enum region_kind kind)
{
	uint64_t offset;

	if (!pointer || !size)
		return CU_INVALID_VALUE;
	if (size > state.capacity)
		return CU_OUT_OF_MEMORY; /* before rounding up can overflow */
	STATE_LOCKED;
	cu_device device = context_device();
	struct block *block = block_take(device, size, low, &offset);
	if (!block)
		return CU_OUT_OF_MEMORY;
	struct region region = {
	    .start = block->base + offset,
	    .size = size,
	    .kind = kind,
	    .device = device,
	    .access = CU_ACCESS_READ_WRITE,
	    .owner = block,
	    .generation = memory_generation(),
	};
	if (!region_add(&region)) {
		block_give(block, offset, size);
		return CU_OUT_OF_MEMORY;
	}
	block->control->generations[offset / SIM_STEP] = region.generation;
	*pointer = region.start;
	return CU_OK;
}

cu_result memory_alloc(cu_deviceptr *pointer, uint64_t size, bool low)
{
	return memory_alloc_kind(pointer, size, low, REGION_DEVICE);
}

cu_result cuMemAlloc_v2(cu_deviceptr *pointer, size_t size)
{
	ANSWER_LOGGED(cuMemAlloc_v2, NEED_CONTEXT, memory_alloc(pointer, size, false),
		      answer_ == CU_OK ? *pointer : 0, size);
}

cu_result memory_pitch(cu_deviceptr *pointer, size_t *pitch, size_t width, size_t height,
		       unsigned int element, bool low)
{
	size_t row, size;

	if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CU_INVALID_VALUE;
	if (__builtin_add_overflow(width, MEMORY_PITCH - 1, &row))
		return CU_OUT_OF_MEMORY;
	row &= ~(size_t)(MEMORY_PITCH - 1);
	if (__builtin_mul_overflow(row, height, &size))
		return CU_OUT_OF_MEMORY;
	cu_result result = memory_alloc(pointer, size, low);
	if (result == CU_OK)
		*pitch = row;
	return result;
}

cu_result cuMemAllocPitch_v2(cu_deviceptr *pointer, size_t *pitch, size_t width, size_t height,
			     unsigned int element)
{
	ANSWER_LOGGED(cuMemAllocPitch_v2, NEED_CONTEXT,
		      memory_pitch(pointer, pitch, width, height, element, false),
		      answer_ == CU_OK ? *pointer : 0, answer_ == CU_OK ? *pitch * height : 0);
}

static void memory_release(struct region *region)
{
	struct block *block = region->owner;

	block_give(block, region->start - block->base, region->size);
	region_remove(region);
}

cu_result memory_free(cu_deviceptr pointer)
{
	if (!pointer)
		return CU_OK;
	STATE_LOCKED;
	struct region *region = region_exactly(pointer);
	if (!region)
		return CU_INVALID_VALUE;
	if (region->kind == REGION_MANAGED)
		return host_free(region);
	if (region->kind != REGION_DEVICE && region->kind != REGION_ASYNC)
		return CU_INVALID_VALUE;
	memory_release(region);
	return CU_OK;
}

cu_result cuMemFree_v2(cu_deviceptr pointer)
{
	ANSWER_LOGGED(cuMemFree_v2, NEED_CONTEXT, memory_free(pointer), pointer, 0);
}

/* A context that goes takes its memory along. Under the lock. */
void memory_drop(cu_device device)
{
	static const enum region_kind kinds[] = {REGION_DEVICE, REGION_ASYNC};
	struct region *region;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		while ((region = region_first_of(device, kinds[i])))
			memory_release(region);
	}
}

cu_result cuMemAllocAsync(cu_deviceptr *pointer, size_t size, cu_stream stream)
{
	(void)stream;
	ANSWER_LOGGED(cuMemAllocAsync, NEED_CONTEXT,
		      memory_alloc_kind(pointer, size, false, REGION_ASYNC),
		      answer_ == CU_OK ? *pointer : 0, size);
}

static cu_result memory_free_async(cu_deviceptr pointer)
{
	if (!pointer)
		return CU_OK;
	STATE_LOCKED;
	struct region *region = region_exactly(pointer);
	if (!region || region->kind != REGION_ASYNC)
		return CU_INVALID_VALUE;
	memory_release(region);
	return CU_OK;
}

cu_result cuMemFreeAsync(cu_deviceptr pointer, cu_stream stream)
{
	(void)stream;
	ANSWER_LOGGED(cuMemFreeAsync, NEED_CONTEXT, memory_free_async(pointer), pointer, 0);
}

static cu_result memory_info(size_t *free_bytes, size_t *total)
{
	if (!free_bytes || !total)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_device device = context_device();
	*free_bytes = state.capacity - state.used[device] + block_cached(device);
	*total = state.capacity;
	return CU_OK;
}

cu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	ANSWER(cuMemGetInfo_v2, NEED_CONTEXT, memory_info(free_bytes, total));
}
