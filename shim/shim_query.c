/* SPDX-License-Identifier: MIT */
/* The program is told of a pointer what it would be told without us. */
#include <errno.h>
#include <string.h>

#include "shim_buffers.h"
#include "shim_lookup.h"

static bool find(cu_deviceptr base, cu_deviceptr pointer, struct live *out_entry)
{
	int error = errno;
	bool found = live_find(base, pointer, out_entry);

	errno = error;
	return found;
}

/* The driver refuses a handle of memory that it opened from one: the owner's own is as good. Of
 * stream-ordered memory the program gets none without us. */
bool buffers_handle(cu_deviceptr pointer, cu_ipc_mem_handle *out_handle, cu_result *out_result)
{
	struct live entry;

	if (!find(pointer, pointer, &entry))
		return false;
	*out_result = CU_INVALID_VALUE;
	if (entry.kind == LIVE_OWN)
		return entry.stream_ordered;
	if (entry.kind != LIVE_IPC || entry.pointer != entry.mapping.pointer)
		return false;
	memcpy(out_handle->reserved, entry.handle, GPUSHARE_HANDLE_SIZE);
	*out_result = CU_OK;
	return true;
}

/* Where the driver does not tell, the pointer itself may be where the memory begins. */
static bool find_around(cu_deviceptr pointer, struct live *out_entry)
{
	const struct driver *driver = lookup_driver();
	cu_deviceptr base;
	size_t size;

	if (!driver || !driver->cuMemGetAddressRange_v2 ||
	    driver->cuMemGetAddressRange_v2(&base, &size, pointer) != CU_OK)
		base = pointer;
	return find(base, pointer, out_entry);
}

void buffers_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size)
{
	struct live entry;

	if (!find_around(pointer, &entry))
		return;
	if (base)
		*base = entry.pointer;
	if (size)
		*size = entry.size;
}

void buffers_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value)
{
	struct live entry;

	if (((int)attribute != CU_ATTRIBUTE_RANGE_SIZE &&
	     (int)attribute != CU_ATTRIBUTE_RANGE_START) ||
	    !value || !find_around(pointer, &entry))
		return;
	if ((int)attribute == CU_ATTRIBUTE_RANGE_SIZE)
		*(size_t *)value = entry.size;
	else
		*(cu_deviceptr *)value = entry.pointer;
}
