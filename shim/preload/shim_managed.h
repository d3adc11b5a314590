/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MANAGED_H
#define GPUSHARE_SHIM_MANAGED_H
/*
 * A rule with "unified" answers cuMemAllocManaged with a unified buffer: pinned host memory at one
 * address in every process. These calls answer the program's queries about such memory as the
 * driver would for managed memory.
 */
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_live.h"

/* Do all `size` bytes lie in one such buffer? Then advice, prefetches and cuStreamAttachMemAsync do
 * nothing and return CU_OK: pinned memory does not need them. */
static inline bool managed_is(cu_deviceptr pointer, size_t size)
{
	struct live entry;

	return live_any_managed() && live_find_managed(pointer, size, &entry);
}

/* Answers cuPointerGetAttribute(s). False: `pointer` is not in such a buffer, or the driver can
 * answer for this attribute. */
bool managed_attribute(cu_deviceptr pointer, cu_pointer_attribute attribute, void *value);
/* Answers cuMemGetAddressRange; `base` and `size` may be NULL. False: `pointer` is not in such a
 * buffer. */
bool managed_range(cu_deviceptr pointer, cu_deviceptr *base, size_t *size);

#endif
