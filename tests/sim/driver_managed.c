/* SPDX-License-Identifier: MIT */
/* Prefetch, advice and attachment of managed memory, refused for other memory. Pages don't move
 * here, so the calls only check their arguments. */
#include "driver_stream.h"

#define MANAGED_CPU (-1)
enum { MANAGED_ADVICE_LAST = 6, MANAGED_LOCATION_LAST = 4 };

/* Check that the range lies within one managed allocation. */
static cu_result managed_range(uint64_t pointer, uint64_t size)
{
	STATE_LOCKED;
	const struct region *region = region_find(pointer);
	return region && region->kind == REGION_MANAGED && size &&
		       size <= region->start + region->size - pointer
		   ? CU_OK
		   : CU_INVALID_VALUE;
}

static cu_result managed_place(cu_device device)
{
	return device == MANAGED_CPU || state_device_good(device) ? CU_OK : CU_INVALID_DEVICE;
}

static cu_result managed_location(cu_mem_location location)
{
	if ((int)location.type == CU_LOCATION_DEVICE)
		return managed_place(location.id);
	return (int)location.type > CU_LOCATION_DEVICE &&
		       (int)location.type <= MANAGED_LOCATION_LAST
		   ? CU_OK
		   : CU_INVALID_VALUE;
}

static cu_result managed_stream(cu_stream stream)
{
	STATE_LOCKED;
	return stream_find(stream) ? CU_OK : CU_INVALID_HANDLE;
}

static cu_result managed_advice(cu_result where, cu_mem_advice advice)
{
	if (where != CU_OK)
		return where;
	return (int)advice > 0 && (int)advice <= MANAGED_ADVICE_LAST ? CU_OK : CU_INVALID_VALUE;
}

/* Return the first error, in the order in which arguments are checked. */
static cu_result managed_judge(cu_result where, cu_result stream, cu_result range)
{
	if (where != CU_OK)
		return where;
	return stream != CU_OK ? stream : range;
}

cu_result cuMemPrefetchAsync(cu_deviceptr pointer, size_t size, cu_device to, cu_stream stream)
{
	ANSWER(
	    cuMemPrefetchAsync, NEED_CONTEXT,
	    managed_judge(managed_place(to), managed_stream(stream), managed_range(pointer, size)));
}

cu_result cuMemPrefetchAsync_v2(cu_deviceptr pointer, size_t size, cu_mem_location to,
				unsigned int flags, cu_stream stream)
{
	ANSWER(cuMemPrefetchAsync_v2, NEED_CONTEXT,
	       flags ? CU_INVALID_VALUE
		     : managed_judge(managed_location(to), managed_stream(stream),
				     managed_range(pointer, size)));
}

cu_result cuStreamAttachMemAsync(cu_stream stream, cu_deviceptr pointer, size_t size,
				 unsigned int flags)
{
	ANSWER(cuStreamAttachMemAsync, NEED_CONTEXT,
	       managed_judge(flags == 1 || flags == 2 || flags == 4 ? CU_OK : CU_INVALID_VALUE,
			     managed_stream(stream), managed_range(pointer, size ? size : 1)));
}

cu_result cuMemAdvise(cu_deviceptr pointer, size_t size, cu_mem_advice advice, cu_device device)
{
	ANSWER(cuMemAdvise, NEED_INIT,
	       managed_judge(managed_advice(managed_place(device), advice), CU_OK,
			     managed_range(pointer, size)));
}

cu_result cuMemAdvise_v2(cu_deviceptr pointer, size_t size, cu_mem_advice advice,
			 cu_mem_location location)
{
	ANSWER(cuMemAdvise_v2, NEED_INIT,
	       managed_judge(managed_advice(managed_location(location), advice), CU_OK,
			     managed_range(pointer, size)));
}
