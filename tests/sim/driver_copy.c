/* SPDX-License-Identifier: MIT */
/* Copies and fills. A fill is done in the call. So is a copy, unless its stream is blocked by a
 * wait or is being captured. */

#include "driver_work.h"

enum side { SIDE_HOST, SIDE_DEVICE, SIDE_ANY };

/* Return true if the current context's device can access the memory. Measured: a copy reaches
 * another device's cuMemAlloc memory, a fill does not. */
static bool copy_reaches(uint64_t start, int access, bool fills)
{
	const struct region *region = region_find(start);
	cu_device device = context_device();

	switch (region ? (int)region->kind : -1) {
	case REGION_ASYNC:
		return pool_reaches(region, device);
	case REGION_MAPPED:
		return (region->seen[device] & access) == access;
	case REGION_DEVICE:
		return !fills || region->device == device;
	default:
		return true;
	}
}

static bool copy_good(uint64_t start, uint64_t size, enum side side, int access)
{
	if (!start)
		return false;
	if (side == SIDE_HOST)
		return true;
	/* An unknown pointer may be ordinary host memory, but not a freed device pointer. */
	if (side == SIDE_ANY && !region_find(start))
		return !address_is_ours(start);
	return region_covers(start, size, access) && copy_reaches(start, access, false);
}

static cu_result copy_run(uint64_t to, enum side to_side, uint64_t from, enum side from_side,
			  size_t size)
{
	if (!size)
		return CU_OK;
	int cancelling = state_lock();
	bool good = copy_good(to, size, to_side, CU_ACCESS_READ_WRITE) &&
		    copy_good(from, size, from_side, CU_ACCESS_READ);
	state_unlock(&cancelling);
	if (!good)
		return CU_INVALID_VALUE;
	if (state.copies)
		memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
	return CU_OK;
}

/* Set *later if the copy must be queued or captured. Return the stream; NULL: no such stream. Under
 * the lock. */
static cu_stream copy_later(cu_stream stream, bool *later)
{
	cu_stream found = stream_find(stream);

	*later = found && (found->capture || work_is_held(found));
	return found;
}

/* True for the program's own memory that is neither pinned nor registered. A copy reads from or
 * writes to such memory before the call returns. Under the lock. */
static bool copy_is_pageable(uint64_t address)
{
	return !address_is_ours(address) && !region_find(address);
}

/* Under the lock. If *waits is set, the caller must release the lock and wait for it. */
static cu_result copy_submit(cu_stream stream, uint64_t to, uint64_t from, size_t size,
			     struct wait **waits)
{
	struct op op = {.kind = OP_COPY, .to = to, .from = from, .size = size};

	if (!stream->capture && copy_is_pageable(from)) {
		op.bytes = malloc(size);
		if (!op.bytes)
			return CU_OUT_OF_MEMORY;
		memcpy(op.bytes, (const void *)(uintptr_t)from, size);
	}
	cu_result result = work_submit(stream, &op);
	if (result == CU_OK && !stream->capture && copy_is_pageable(to))
		*waits = wait_hold(stream->last);
	return result;
}

static cu_result copy_queue(uint64_t to, enum side to_side, uint64_t from, enum side from_side,
			    size_t size, cu_stream stream)
{
	struct wait *waits = NULL;
	bool later;

	int cancelling = state_lock();
	cu_stream found = copy_later(stream, &later);
	cu_result result = found ? CU_OK : CU_INVALID_HANDLE;
	if (found && later && size)
		result = copy_good(to, size, to_side, CU_ACCESS_READ_WRITE) &&
				 copy_good(from, size, from_side, CU_ACCESS_READ)
			     ? copy_submit(found, to, from, size, &waits)
			     : CU_INVALID_VALUE;
	state_unlock(&cancelling);
	if (waits)
		wait_for(waits);
	return result != CU_OK || later ? result : copy_run(to, to_side, from, from_side, size);
}

cu_result cuMemcpyHtoD_v2(cu_deviceptr to, const void *from, size_t size)
{
	ANSWER(cuMemcpyHtoD_v2, NEED_CONTEXT,
	       copy_run(to, SIDE_DEVICE, (uintptr_t)from, SIDE_HOST, size));
}

cu_result cuMemcpyHtoDAsync_v2(cu_deviceptr to, const void *from, size_t size, cu_stream stream)
{
	ANSWER(cuMemcpyHtoDAsync_v2, NEED_CONTEXT,
	       copy_queue(to, SIDE_DEVICE, (uintptr_t)from, SIDE_HOST, size, stream));
}

cu_result cuMemcpyDtoH_v2(void *to, cu_deviceptr from, size_t size)
{
	ANSWER(cuMemcpyDtoH_v2, NEED_CONTEXT,
	       copy_run((uintptr_t)to, SIDE_HOST, from, SIDE_DEVICE, size));
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_deviceptr from, size_t size, cu_stream stream)
{
	ANSWER(cuMemcpyDtoHAsync_v2, NEED_CONTEXT,
	       copy_queue((uintptr_t)to, SIDE_HOST, from, SIDE_DEVICE, size, stream));
}

cu_result cuMemcpyDtoD_v2(cu_deviceptr to, cu_deviceptr from, size_t size)
{
	ANSWER(cuMemcpyDtoD_v2, NEED_CONTEXT, copy_run(to, SIDE_DEVICE, from, SIDE_DEVICE, size));
}

cu_result cuMemcpy(cu_deviceptr to, cu_deviceptr from, size_t size)
{
	ANSWER(cuMemcpy, NEED_CONTEXT, copy_run(to, SIDE_ANY, from, SIDE_ANY, size));
}

cu_result cuMemcpyAsync(cu_deviceptr to, cu_deviceptr from, size_t size, cu_stream stream)
{
	ANSWER(cuMemcpyAsync, NEED_CONTEXT, copy_queue(to, SIDE_ANY, from, SIDE_ANY, size, stream));
}

static cu_result copy_fill(uint64_t to, unsigned int value, size_t width, size_t count)
{
	size_t size;

	if (!count)
		return CU_OK;
	if (__builtin_mul_overflow(count, width, &size) || to % width)
		return CU_INVALID_VALUE;
	int cancelling = state_lock();
	bool good = copy_good(to, size, SIDE_DEVICE, CU_ACCESS_READ_WRITE) &&
		    copy_reaches(to, CU_ACCESS_READ_WRITE, true);
	state_unlock(&cancelling);
	if (!good)
		return CU_INVALID_VALUE;
	if (width == 1) {
		memset((void *)(uintptr_t)to, (int)value, count);
		return CU_OK;
	}
	for (unsigned int *cell = (unsigned int *)(uintptr_t)to; count--; cell++)
		*cell = value;
	return CU_OK;
}

cu_result cuMemsetD8_v2(cu_deviceptr to, unsigned char value, size_t count)
{
	ANSWER(cuMemsetD8_v2, NEED_CONTEXT, copy_fill(to, value, 1, count));
}

cu_result cuMemsetD32_v2(cu_deviceptr to, unsigned int value, size_t count)
{
	ANSWER(cuMemsetD32_v2, NEED_CONTEXT, copy_fill(to, value, 4, count));
}
