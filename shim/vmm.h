/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_H
#define GPUSHARE_SHIM_VMM_H
/*
 * Memory made by cuMemCreate that came as a file descriptor: an address for it, and away again.
 * Driver calls that the table lacks answer CU_NOT_SUPPORTED. No context need be current.
 */
#include "driver.h"

struct vmm_mapping {
	uint64_t pointer, size;
	cu_mem_handle handle;
};

/* Import, reserve, map, and let `device` read and write. `size` is a multiple of the granularity;
 * the fd stays the caller's. On failure nothing is left, and *out_call names the call. */
cu_result vmm_map(const struct driver *driver, int fd, uint64_t size, cu_device device,
		  struct vmm_mapping *out_mapping, const char **out_call);
/* The first failure, after trying all. */
cu_result vmm_unmap(const struct driver *driver, const struct vmm_mapping *mapping);

#endif
