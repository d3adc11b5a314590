/* SPDX-License-Identifier: MIT */
/* Synchronous allocations: cuMemAlloc and cuMemAllocPitch. shim_managed.c has managed memory. */
#include "base/monotonic.h"
#include "shim_async.h"
#include "shim_attach.h"
#include "shim_buffers.h"
#include "shim_linger.h"
#include "shim_own.h"
#include "cuda/shim_scope.h"
#include "shim_site.h"

size_t buffers_rounded(size_t size)
{
	size_t rounded;

	if (__builtin_add_overflow(size, BUFFERS_BLOCK - 1, &rounded))
		return size;
	return rounded & ~(BUFFERS_BLOCK - 1);
}

void buffers_sweep(void)
{
	if (!async_waits())
		return;
	site_guard();
	async_sweep(false);
}

/* Wait for stream-ordered frees first, until a deadline: some of them become deferred frees, which
 * linger_empty() then completes. */
bool buffers_make_room(void)
{
	_quiet_ struct quiet quiet = quiet_enter();
	bool made = async_waits() && async_drain(monotonic_ms() + state_timeout_ms());

	return linger_empty() || made;
}

bool buffers_has_room(const struct driver *driver, size_t size)
{
	_scope_ struct scope scope = scope_enter(driver);
	size_t rounded = buffers_rounded(size), room, total;

	return rounded == size || (driver->cuMemGetInfo_v2(&room, &total) == CU_OK &&
				   room >= rounded && room - rounded >= total / BUFFERS_AMPLE);
}

static cu_result make_plain(cu_cuMemAlloc_v2_call *real, cu_deviceptr *pointer, size_t size)
{
	return BUFFERS_TRY(real(pointer, size));
}

/* A process that opens an IPC handle maps whole blocks, so named memory must share no block with
 * other memory. If the GPU has no room for the size rounded up to blocks, allocate the requested
 * size, without a name. */
static cu_result make_alone(const struct claim *claim, cu_cuMemAlloc_v2_call *real,
			    cu_deviceptr *pointer, size_t size, struct own *own)
{
	size_t rounded = buffers_rounded(size);
	int error = errno;

	if (rounded == size)
		return make_plain(real, pointer, size);
	if (buffers_has_room(claim->driver, size) && real(pointer, rounded) == CU_OK)
		return CU_OK;
	errno = error;
	own_leave(own);
	return make_plain(real, pointer, size);
}

/* Replace *pointer by new memory of `other_size` bytes. Return false if there is no room. */
static bool replace(const struct claim *claim, cu_deviceptr *pointer, size_t other_size)
{
	_scope_ struct scope scope = scope_enter(claim->driver);
	const struct driver *driver = claim->driver;
	cu_deviceptr other;

	if (driver->cuMemAlloc_v2(&other, other_size) != CU_OK)
		return false;
	driver->cuMemFree_v2(*pointer);
	*pointer = other;
	return true;
}

/* Replace pitched memory by memory of whole blocks, in which the driver's pitch stays valid. Return
 * false if there is no room. */
static bool replace_alone(const struct claim *claim, cu_deviceptr *pointer, size_t size)
{
	size_t rounded = buffers_rounded(size);

	return rounded == size ||
	       (buffers_has_room(claim->driver, size) && replace(claim, pointer, rounded));
}

/* If the requested size can't be recorded, reallocate without rounding. */
static void settle(const struct claim *claim, const struct own *own, cu_deviceptr *pointer,
		   size_t size)
{
	if (!own_settle(claim, own, *pointer) && buffers_rounded(size) != size)
		replace(claim, pointer, size);
}

static cu_result make_named(const struct claim *claim, cu_cuMemAlloc_v2_call *real,
			    cu_deviceptr *pointer, size_t size)
{
	cu_result result = CU_OK;
	struct own own;

	if (!own_make(claim, pointer, &own))
		result = own.shareable ? make_alone(claim, real, pointer, size, &own)
				       : make_plain(real, pointer, size);
	if (result == CU_OK)
		settle(claim, &own, pointer, size);
	return result;
}

cu_result buffers_alloc(cu_cuMemAlloc_v2_call *real, const void *caller, cu_deviceptr *pointer,
			size_t size)
{
	struct claim claim;
	cu_result result;

	buffers_sweep();
	if (!pointer || !size ||
	    !claim_open(&claim, RULES_API_cuMemAlloc, size, CLAIM_CURRENT_DEVICE, caller))
		return make_plain(real, pointer, size);
	if (claim_take(&claim, RULES_ATTACH) && attach_buffer(&claim, pointer, &result))
		return result;
	result = claim_take(&claim, RULES_NAME) ? make_named(&claim, real, pointer, size)
						: make_plain(real, pointer, size);
	if (result != CU_OK)
		claim_fail(&claim);
	return result;
}

/* Make the mapped memory (cuMemCreate) first, and then free the pitched memory that it replaces. If
 * there is no room for both, the program keeps the pitched memory. */
static void name_pitched(const struct claim *claim, cu_deviceptr *pointer, size_t size)
{
	cu_deviceptr mapped;
	struct own own;

	if (own_make(claim, &mapped, &own)) {
		_scope_ struct scope scope = scope_enter(claim->driver);

		claim->driver->cuMemFree_v2(*pointer);
		*pointer = mapped;
	} else if (own.shareable && !replace_alone(claim, pointer, size)) {
		own_leave(&own);
	}
	settle(claim, &own, pointer, size);
}

cu_result buffers_alloc_pitch(cu_cuMemAllocPitch_v2_call *real, const void *caller,
			      cu_deviceptr *pointer, size_t *pitch, size_t width, size_t height,
			      unsigned int element)
{
	cu_result result, answer;
	struct claim claim;
	cu_deviceptr attached;
	size_t size;

	buffers_sweep();
	result = BUFFERS_TRY(real(pointer, pitch, width, height, element));
	if (result != CU_OK)
		return result;
	size = *pitch * height;
	if (!claim_open(&claim, RULES_API_cuMemAllocPitch, size, CLAIM_CURRENT_DEVICE, caller))
		return result;
	if (claim_take(&claim, RULES_ATTACH) && attach_buffer(&claim, &attached, &answer)) {
		claim.driver->cuMemFree_v2(*pointer);
		if (answer == CU_OK)
			*pointer = attached;
		return answer;
	}
	if (claim_take(&claim, RULES_NAME))
		name_pitched(&claim, pointer, size);
	return result;
}
