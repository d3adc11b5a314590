/* SPDX-License-Identifier: MIT */
/* Copies and fills: done at once, also where the real driver would queue them behind a wait; only
 * what is being captured is not done at all. */
#include <string.h>

#include "driver_stream.h"

enum side { SIDE_HOST, SIDE_DEVICE, SIDE_ANY };

static bool copy_good(uint64_t start, uint64_t size, enum side side, int access)
{
	if (!start)
		return false;
	if (side == SIDE_HOST)
		return true;
	/* A pointer that is nobody's may be ordinary host memory, but not a freed device pointer.
	 */
	if (side == SIDE_ANY && !region_find(start))
		return !address_is_ours(start);
	return region_covers(start, size, access);
}

static cu_result copy_run(uint64_t to, enum side to_side, uint64_t from, enum side from_side,
			  size_t size)
{
	if (!size)
		return CU_OK;
	state_lock();
	bool good = copy_good(to, size, to_side, CU_ACCESS_READ_WRITE) &&
		    copy_good(from, size, from_side, CU_ACCESS_READ);
	pthread_mutex_unlock(&state.lock);
	if (!good)
		return CU_INVALID_VALUE;
	memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, size);
	return CU_OK;
}

static cu_result copy_stream(cu_stream stream, bool *captured)
{
	STATE_LOCKED;
	const struct cu_stream_opaque *found = stream_find(stream);
	*captured = found && found->capture;
	return found ? CU_OK : CU_INVALID_HANDLE;
}

static cu_result copy_queue(uint64_t to, enum side to_side, uint64_t from, enum side from_side,
			    size_t size, cu_stream stream)
{
	bool captured;
	cu_result result = copy_stream(stream, &captured);

	return result != CU_OK || captured ? result : copy_run(to, to_side, from, from_side, size);
}

#define COPY_TO_DEVICE(name, to, from, size) \
	ANSWER(name, NEED_CONTEXT, copy_run(to, SIDE_DEVICE, (uintptr_t)(from), SIDE_HOST, size))
#define COPY_TO_HOST(name, to, from, size) \
	ANSWER(name, NEED_CONTEXT, copy_run((uintptr_t)(to), SIDE_HOST, from, SIDE_DEVICE, size))
#define COPY_SIDES(name, to, from, size, side) \
	ANSWER(name, NEED_CONTEXT, copy_run(to, side, from, side, size))

cu_result cuMemcpyHtoD_v2(cu_deviceptr to, const void *from, size_t size)
{
	COPY_TO_DEVICE(cuMemcpyHtoD_v2, to, from, size);
}

cu_result cuMemcpyHtoDAsync_v2(cu_deviceptr to, const void *from, size_t size, cu_stream stream)
{
	ANSWER(cuMemcpyHtoDAsync_v2, NEED_CONTEXT,
	       copy_queue(to, SIDE_DEVICE, (uintptr_t)from, SIDE_HOST, size, stream));
}

cu_result cuMemcpyDtoH_v2(void *to, cu_deviceptr from, size_t size)
{
	COPY_TO_HOST(cuMemcpyDtoH_v2, to, from, size);
}

cu_result cuMemcpyDtoHAsync_v2(void *to, cu_deviceptr from, size_t size, cu_stream stream)
{
	ANSWER(cuMemcpyDtoHAsync_v2, NEED_CONTEXT,
	       copy_queue((uintptr_t)to, SIDE_HOST, from, SIDE_DEVICE, size, stream));
}

cu_result cuMemcpyDtoD_v2(cu_deviceptr to, cu_deviceptr from, size_t size)
{
	COPY_SIDES(cuMemcpyDtoD_v2, to, from, size, SIDE_DEVICE);
}

cu_result cuMemcpy(cu_deviceptr to, cu_deviceptr from, size_t size)
{
	COPY_SIDES(cuMemcpy, to, from, size, SIDE_ANY);
}

cu_result cuMemcpyAsync(cu_deviceptr to, cu_deviceptr from, size_t size, cu_stream stream)
{
	ANSWER(cuMemcpyAsync, NEED_CONTEXT, copy_queue(to, SIDE_ANY, from, SIDE_ANY, size, stream));
}

cu_result cuMemcpyHtoD(unsigned int to, const void *from, unsigned int size)
{
	COPY_TO_DEVICE(cuMemcpyHtoD, to, from, size);
}

cu_result cuMemcpyDtoH(void *to, unsigned int from, unsigned int size)
{
	COPY_TO_HOST(cuMemcpyDtoH, to, from, size);
}

cu_result cuMemcpyDtoD(unsigned int to, unsigned int from, unsigned int size)
{
	COPY_SIDES(cuMemcpyDtoD, to, from, size, SIDE_DEVICE);
}

static cu_result copy_fill(uint64_t to, unsigned int value, size_t width, size_t count)
{
	size_t size;

	if (!count)
		return CU_OK;
	if (__builtin_mul_overflow(count, width, &size) || to % width)
		return CU_INVALID_VALUE;
	state_lock();
	bool good = copy_good(to, size, SIDE_DEVICE, CU_ACCESS_READ_WRITE);
	pthread_mutex_unlock(&state.lock);
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

static cu_result copy_fill_queue(uint64_t to, unsigned int value, size_t count, cu_stream stream)
{
	bool captured;
	cu_result result = copy_stream(stream, &captured);

	return result != CU_OK || captured ? result : copy_fill(to, value, 4, count);
}

cu_result cuMemsetD32Async(cu_deviceptr to, unsigned int value, size_t count, cu_stream stream)
{
	ANSWER(cuMemsetD32Async, NEED_CONTEXT, copy_fill_queue(to, value, count, stream));
}

cu_result cuMemsetD8(unsigned int to, unsigned char value, unsigned int count)
{
	ANSWER(cuMemsetD8, NEED_CONTEXT, copy_fill(to, value, 1, count));
}

cu_result cuMemsetD32(unsigned int to, unsigned int value, unsigned int count)
{
	ANSWER(cuMemsetD32, NEED_CONTEXT, copy_fill(to, value, 4, count));
}
