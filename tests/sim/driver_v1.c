/* SPDX-License-Identifier: MIT */
/* The 32-bit calls of CUDA 3.1 and before: pointers below 4 GiB, sizes in unsigned int. */
#include <limits.h>

#include "driver_sim.h"

static unsigned int v1_clip(uint64_t value)
{
	return value > UINT_MAX ? UINT_MAX : (unsigned int)value;
}

static cu_result v1_alloc(unsigned int *pointer, unsigned int size)
{
	cu_deviceptr wide;
	cu_result result = pointer ? memory_alloc(&wide, size, true) : CU_INVALID_VALUE;

	if (result == CU_OK)
		*pointer = (unsigned int)wide;
	else if (pointer && !size)
		*pointer = 0;
	return result;
}

cu_result cuMemAlloc(unsigned int *pointer, unsigned int size)
{
	ANSWER_LOGGED(cuMemAlloc, NEED_NO_CAPTURE, v1_alloc(pointer, size),
		      answer_ == CU_OK ? *pointer : 0, size);
}

static cu_result v1_pitch(unsigned int *pointer, unsigned int *pitch, unsigned int width,
			  unsigned int height, unsigned int element)
{
	cu_deviceptr wide;
	size_t row;

	if (!pointer || !pitch)
		return CU_INVALID_VALUE;
	cu_result result = memory_pitch(&wide, &row, width, height, element, true);
	if (result != CU_OK)
		return result;
	*pointer = (unsigned int)wide;
	*pitch = (unsigned int)row;
	return CU_OK;
}

cu_result cuMemAllocPitch(unsigned int *pointer, unsigned int *pitch, unsigned int width,
			  unsigned int height, unsigned int element)
{
	ANSWER_LOGGED(cuMemAllocPitch, NEED_NO_CAPTURE,
		      v1_pitch(pointer, pitch, width, height, element),
		      answer_ == CU_OK ? *pointer : 0, (uint64_t)width * height);
}

cu_result cuMemFree(unsigned int pointer)
{
	ANSWER_LOGGED(cuMemFree, NEED_NO_DEAD, memory_free(pointer), pointer, 0);
}

static cu_result v1_range(unsigned int *base, unsigned int *size, unsigned int pointer)
{
	cu_deviceptr wide;
	size_t wide_size;
	cu_result result = pointer_range(&wide, &wide_size, pointer);

	if (result != CU_OK)
		return result;
	if (base)
		*base = (unsigned int)wide;
	if (size)
		*size = v1_clip(wide_size);
	return CU_OK;
}

cu_result cuMemGetAddressRange(unsigned int *base, unsigned int *size, unsigned int pointer)
{
	ANSWER(cuMemGetAddressRange, NEED_CONTEXT, v1_range(base, size, pointer));
}

cu_result cuMemGetInfo(unsigned int *free, unsigned int *total)
{
	size_t wide_free, wide_total;

	if (!free || !total)
		return CU_INVALID_VALUE;
	cu_result result = cuMemGetInfo_v2(&wide_free, &wide_total);
	if (result != CU_OK)
		return result;
	*free = v1_clip(wide_free);
	*total = v1_clip(wide_total);
	return CU_OK;
}

cu_result cuDeviceTotalMem(unsigned int *bytes, cu_device device)
{
	size_t wide;

	if (!bytes)
		return CU_INVALID_VALUE;
	cu_result result = cuDeviceTotalMem_v2(&wide, device);
	if (result == CU_OK)
		*bytes = v1_clip(wide);
	return result;
}
