/* SPDX-License-Identifier: MIT */
#include "exported.h"

#include "stage.h"

int exported_memory(const struct driver *driver, size_t size)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = CU_LOCATION_DEVICE},
	};
	cu_mem_handle handle;
	int fd = -1;

	CHECK(driver->cuMemCreate(&handle, size, &prop, 0) == CU_OK);
	CHECK(driver->cuMemExportToShareableHandle(&fd, handle, (cu_handle_type)CU_HANDLE_POSIX_FD,
						   0) == CU_OK);
	CHECK(driver->cuMemRelease(handle) == CU_OK);
	return fd;
}
