/* SPDX-License-Identifier: MIT */
#include "shim_managed.h"

#include <string.h>

#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_own.h"

/* cuMemAllocManaged takes CU_MEM_ATTACH_GLOBAL (1) or CU_MEM_ATTACH_HOST (2). */
#define FLAGS_LEAST 1u
#define FLAGS_MOST 2u

static cu_result make_managed(cu_cuMemAllocManaged_call *real, cu_deviceptr *pointer, size_t size,
			      unsigned int flags)
{
	buffers_sweep();
	return BUFFERS_TRY(real(pointer, size, flags));
}

/* If host memory can't be made, the program gets managed memory without a name. */
static cu_result make_unified(cu_cuMemAllocManaged_call *real, const struct claim *claim,
			      cu_deviceptr *pointer, size_t size, unsigned int flags)
{
	cu_result result = CU_OK;
	struct own own;

	if (!own_make(claim, pointer, &own))
		result = make_managed(real, pointer, size, flags);
	if (result == CU_OK)
		own_settle(claim, &own, *pointer);
	return result;
}

cu_result buffers_alloc_managed(cu_cuMemAllocManaged_call *real, const void *caller,
				cu_deviceptr *pointer, size_t size, unsigned int flags)
{
	struct claim claim;
	cu_result result;
	bool taken;

	if (!pointer || !size || flags < FLAGS_LEAST || flags > FLAGS_MOST ||
	    !claim_open(&claim, RULES_API_cuMemAllocManaged, size, CLAIM_CURRENT_DEVICE, caller))
		return make_managed(real, pointer, size, flags);
	if (claim_take(&claim, RULES_ATTACH) && attach_buffer(&claim, pointer, &result))
		return result;
	taken = claim_take(&claim, RULES_NAME);
	if (taken && claim.match.unified)
		result = make_unified(real, &claim, pointer, size, flags);
	else
		result = make_managed(real, pointer, size, flags);
	if (result != CU_OK)
		claim_fail(&claim);
	else if (taken && !claim.match.unified)
		state_log(
		    "\"%s\" is not shared: managed memory (cudaMallocManaged) has no handle that "
		    "another process could open; let the rule say \"unified\", allocate it with "
		    "cudaMalloc, or choose another allocation with api=, nth= or size=",
		    claim.match.name);
	return result;
}

bool managed_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size)
{
	struct live entry;

	if (!live_find_managed(pointer, 1, &entry))
		return false;
	if (base)
		*base = entry.pointer;
	if (size)
		*size = entry.size;
	return true;
}

/* Write the answer in the type that CUDA defines for the attribute. */
#define ANSWER(type, what) \
	do { \
		const type answer = what; \
\
		memcpy(value, &answer, sizeof(answer)); \
		return true; \
	} while (0)

bool managed_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value)
{
	struct live entry;

	if (!value || !live_find_managed(pointer, 1, &entry))
		return false;
	switch ((int)attribute) {
	case CU_ATTRIBUTE_CONTEXT:
		ANSWER(cu_context, entry.context);
	case CU_ATTRIBUTE_MEMORY_TYPE:
		ANSWER(unsigned int, CU_MEMORY_DEVICE);
	case CU_ATTRIBUTE_DEVICE_POINTER:
	case CU_ATTRIBUTE_HOST_POINTER:
		ANSWER(cu_deviceptr, pointer);
	case CU_ATTRIBUTE_IS_MANAGED:
		ANSWER(bool, true);
	case CU_ATTRIBUTE_DEVICE_ORDINAL:
		ANSWER(cu_device, entry.device);
	case CU_ATTRIBUTE_LEGACY_IPC_CAPABLE:
		ANSWER(bool, false);
	case CU_ATTRIBUTE_RANGE_START:
		ANSWER(cu_deviceptr, entry.pointer);
	case CU_ATTRIBUTE_RANGE_SIZE:
		ANSWER(size_t, entry.size);
	case CU_ATTRIBUTE_MEMPOOL:
		ANSWER(cu_mem_pool, NULL);
	default:
		return false;
	}
}
