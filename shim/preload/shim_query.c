/* SPDX-License-Identifier: MIT */
/* Queries about a pointer: the program gets the answers that it would get without the shim. */
#include <string.h>

#include "shim_buffers.h"
#include "shim_ipc.h"
#include "shim_linger.h"
#include "shim_lookup.h"
#include "shim_process.h"
#include "shim_share.h"
#include "shim_site.h"

#define NOBODYS ((cu_deviceptr)8)

/* Returns the pointer to ask the driver about. If `pointer` is in memory of a deferred free, the
 * driver still knows it, but the program has freed it. Then return an address that is never in
 * memory. */
cu_deviceptr buffers_told(cu_deviceptr pointer)
{
	const struct driver *driver = deferred_any(&linger_list) ? lookup_driver() : NULL;
	cu_deviceptr base;
	size_t size;

	if (!driver || !process_is_mine())
		return pointer;
	if (driver->cuMemGetAddressRange_v2(&base, &size, pointer) != CU_OK) {
		base = pointer;
		size = 1;
	}
	return deferred_holds(&linger_list, base, size) ? NOBODYS : pointer;
}

/* If the driver knows no range, take the pointer itself for the beginning of the memory. */
bool buffers_find_around(cu_deviceptr pointer, struct live *out_entry)
{
	const struct driver *driver = lookup_driver();
	cu_deviceptr base;
	size_t size;

	if (!driver || driver->cuMemGetAddressRange_v2(&base, &size, pointer) != CU_OK)
		base = pointer;
	return live_find(base, pointer, out_entry);
}

/* Make one of our handles (shim_ipc.h) for mapped memory, if the memory that it replaces would have
 * one without the shim. */
static cu_result make_handle(const struct live *entry, cu_ipc_mem_handle *out_handle)
{
	struct live settled = *entry;

	if (live_is_unsettled(entry)) {
		share_settle(entry->pointer, false);
		if (!live_find(entry->pointer, entry->pointer, &settled))
			return CU_INVALID_VALUE;
	}
	if (settled.kind == LIVE_OPENED || settled.stream_ordered || settled.managed ||
	    !settled.name[0] || !settled.generation)
		return CU_INVALID_VALUE;
	ipc_make(&settled, out_handle);
	return CU_OK;
}

static bool has_context(void)
{
	const struct driver *driver = lookup_driver();
	cu_context context = NULL;

	return driver && driver->cuCtxGetCurrent(&context) == CU_OK && context;
}

/* cuIpcGetMemHandle refuses memory that was opened from a handle. So for attached IPC memory return
 * the owner's handle. */
bool buffers_handle(cu_deviceptr pointer, cu_ipc_mem_handle *out_handle, cu_result *out_result)
{
	struct live entry;

	site_guard();
	if (!live_find(pointer, pointer, &entry) &&
	    !(buffers_find_around(pointer, &entry) && live_is_mapped(&entry)))
		return false;
	if (entry.kind == LIVE_OWN)
		return false;
	if (live_is_mapped(&entry)) {
		if (!has_context())
			return false;
		*out_result = make_handle(&entry, out_handle);
		return true;
	}
	if (entry.pointer != entry.mapping.pointer)
		return false;
	memcpy(out_handle->reserved, entry.handle, GPUSHARE_HANDLE_SIZE);
	*out_result = CU_OK;
	return true;
}

cu_result buffers_open_handle(cu_cuIpcOpenMemHandle_v2_call *real, cu_deviceptr *pointer,
			      const cu_ipc_mem_handle *handle, unsigned int flags)
{
	const struct driver *driver = lookup_driver();

	if (!driver || process_is_ending())
		return real(pointer, *handle, flags);
	site_guard();
	process_claim();
	if (!process_is_mine())
		return real(pointer, *handle, flags);
	return ipc_open(driver, pointer, handle, flags);
}

cu_result buffers_close_handle(cu_cuIpcCloseMemHandle_call *real, cu_deviceptr pointer)
{
	const struct driver *driver = lookup_driver();
	cu_result result;

	site_guard();
	if (driver && process_is_mine() && ipc_close(driver, pointer, &result))
		return result;
	return real(pointer);
}

void buffers_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size)
{
	struct live entry;

	if (!buffers_find_around(pointer, &entry))
		return;
	if (base)
		*base = entry.pointer;
	if (size)
		*size = entry.size;
}

static bool is_asked_of_us(int attribute)
{
	return attribute == CU_ATTRIBUTE_RANGE_SIZE || attribute == CU_ATTRIBUTE_RANGE_START ||
	       attribute == CU_ATTRIBUTE_CONTEXT || attribute == CU_ATTRIBUTE_LEGACY_IPC_CAPABLE ||
	       attribute == CU_ATTRIBUTE_MEMPOOL;
}

void buffers_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value)
{
	struct live entry;
	bool pooled;

	if (!is_asked_of_us((int)attribute) || !value || !buffers_find_around(pointer, &entry))
		return;
	pooled = entry.stream_ordered || entry.pool;
	if ((int)attribute == CU_ATTRIBUTE_RANGE_SIZE)
		*(size_t *)value = entry.size;
	else if ((int)attribute == CU_ATTRIBUTE_RANGE_START)
		*(cu_deviceptr *)value = entry.pointer;
	else if ((int)attribute == CU_ATTRIBUTE_MEMPOOL)
		*(cu_mem_pool *)value = entry.pool;
	else if (!pooled && entry.kind != LIVE_OWN_VMM)
		return;
	else if ((int)attribute == CU_ATTRIBUTE_CONTEXT)
		*(cu_context *)value = pooled ? NULL : entry.context;
	else
		*(bool *)value = !pooled;
}
