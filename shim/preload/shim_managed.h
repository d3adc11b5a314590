/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MANAGED_H
#define GPUSHARE_SHIM_MANAGED_H
/*
 * Managed memory (cuMemAllocManaged) that is a unified buffer behind the program's back: pinned host
 * memory at one address. Here the program is told of it what it would be told of managed memory.
 */
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_live.h"

/* Advice, prefetches and attaching to streams ask for what pinned memory does not need: all of those
 * bytes are in one, and the answer is CU_OK. */
static inline bool managed_is(cu_deviceptr pointer, size_t size)
{
	struct live entry;

	return live_any_managed() && live_find_managed(pointer, size, &entry);
}

/* cuPointerGetAttribute(s) of it. False: none of ours, or an attribute that the driver knows best. */
bool managed_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value);
/* cuMemGetAddressRange of it; each may be NULL. */
bool managed_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size);

#endif
