/* SPDX-License-Identifier: MIT */
/* Named cuMemCreate memory: what the shim does around the program's calls. */
#include <errno.h>

#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_live.h"
#include "shim_pages.h"
#include "shim_process.h"
#include "shim_share.h"
#include "shim_site.h"
#include "cuda/shim_scope.h"

/* Ask for one more handle type, which makes the memory exportable. If that fails, create the memory
 * as the program asked. */
static cu_result create_exportable(cu_cuMemCreate_call *real, cu_mem_handle *handle, size_t size,
				   const cu_mem_prop *prop, unsigned long long flags)
{
	cu_mem_prop wider = *prop;
	int error = errno;
	cu_result result;

	wider.requestedHandleTypes |= CU_HANDLE_POSIX_FD;
	result = BUFFERS_TRY(real(handle, size, &wider, flags));
	if (result == CU_OK)
		return result;
	errno = error;
	return real(handle, size, prop, flags);
}

static cu_result create_named(const struct claim *claim, cu_cuMemCreate_call *real,
			      cu_mem_handle *handle, size_t size, const cu_mem_prop *prop,
			      unsigned long long flags)
{
	struct vmm_mapping object = {.size = size};
	cu_result result;

	if (claim->match.adopt && share_adopted(claim, handle))
		return CU_OK;
	result = create_exportable(real, handle, size, prop, flags);
	if (result != CU_OK)
		return result;
	_scope_ struct scope scope = scope_enter(claim->driver);
	object.handle = *handle;
	share_mapping(claim, &object);
	return CU_OK;
}

/* Host memory is left alone: NCCL and other libraries make it for their own purposes. */
cu_result buffers_create(cu_cuMemCreate_call *real, const void *caller, cu_mem_handle *handle,
			 size_t size, const cu_mem_prop *prop, unsigned long long flags)
{
	struct claim claim;
	cu_result result;

	buffers_sweep();
	if (!handle || !size || !prop || (int)prop->location.type != CU_LOCATION_DEVICE ||
	    !claim_open(&claim, RULES_API_cuMemCreate, size, prop->location.id, caller))
		return BUFFERS_TRY(real(handle, size, prop, flags));
	if (claim_take(&claim, RULES_ATTACH) && attach_buffer(&claim, handle, &result))
		return result;
	result = claim_take(&claim, RULES_NAME)
		     ? create_named(&claim, real, handle, size, prop, flags)
		     : BUFFERS_TRY(real(handle, size, prop, flags));
	if (result != CU_OK)
		claim_fail(&claim);
	return result;
}

static bool concerns_objects(void)
{
	return live_any_object() && process_is_mine();
}

/* Tell the registry that the objects of the list have ended, and free the list. This may follow the
 * driver's call: a name stands for the memory of the registry's file descriptor, not for a handle
 * or an address. */
static void tell_ended(struct live_ended *ended)
{
	for (const struct live_ended *each = ended; each; each = each->next) {
		if (live_is_own(&each->entry)) {
			pages_publish_ended(each->entry.generation);
			share_end(each->entry.name, each->entry.generation);
		} else {
			share_left(&each->entry);
		}
	}
	live_free_ended(ended);
}

cu_result buffers_release(cu_cuMemRelease_call *real, cu_mem_handle handle)
{
	struct live_ended *ended = NULL;
	cu_result result;

	if (concerns_objects()) {
		site_guard();
		share_settle(handle, true);
		ended = live_count_handles(handle, -1);
	}
	result = real(handle);
	tell_ended(ended);
	return result;
}

/* Does `pointer` lie in memory that the shim mapped, and that the program takes for plain
 * memory? */
static bool stands_for_plain(cu_deviceptr pointer)
{
	struct live entry;

	return live_any() && buffers_find_around(pointer, &entry) && live_is_mapped(&entry);
}

cu_result buffers_retain(cu_cuMemRetainAllocationHandle_call *real, cu_mem_handle *handle,
			 void *pointer)
{
	cu_result result;

	if (stands_for_plain((cu_deviceptr)(uintptr_t)pointer))
		return CU_INVALID_VALUE;
	result = real(handle, pointer);
	if (result == CU_OK && concerns_objects())
		live_count_handles(*handle, 1);
	return result;
}

cu_result buffers_map(cu_cuMemMap_call *real, cu_deviceptr pointer, size_t size, size_t offset,
		      cu_mem_handle handle, unsigned long long flags)
{
	cu_result result = real(pointer, size, offset, handle, flags);

	if (result == CU_OK && concerns_objects())
		live_add_place(pointer, handle);
	return result;
}

cu_result buffers_unmap(cu_cuMemUnmap_call *real, cu_deviceptr pointer, size_t size)
{
	struct live_places *taken = NULL;
	cu_result result;
	int error;

	if (stands_for_plain(pointer))
		return CU_INVALID_VALUE;
	if (concerns_objects()) {
		site_guard();
		taken = live_take_places(pointer, size);
	}
	result = real(pointer, size);
	error = errno;
	tell_ended(live_settle_places(taken, result == CU_OK));
	errno = error;
	return result;
}
