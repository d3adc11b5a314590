/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_POOL_H
#define GPUSHARE_SHIM_POOL_H
/*
 * Statistics of memory pools. The shim answers some allocations from a pool with other memory, and
 * adds that memory to the pool's statistics: they are the driver's number plus ours.
 */
#include <stdbool.h>

#include "cuda/driver.h"

/* Is there a pool with such allocations? One atomic load. */
bool pools_any(void);

/* Call this after the program got other memory in place of memory from that pool. The other memory
 * must be in the live table already. NULL is ignored. errno stays unchanged. */
void pools_grow(cu_mem_pool pool);

/* The replaced calls. Each calls `real` and returns its result. */
cu_result pools_get(cu_cuMemPoolGetAttribute_call *real, cu_mem_pool pool,
		    cu_pool_attribute attribute, void *value);
cu_result pools_set(cu_cuMemPoolSetAttribute_call *real, cu_mem_pool pool,
		    cu_pool_attribute attribute, void *value);
cu_result pools_trim(cu_cuMemPoolTrimTo_call *real, cu_mem_pool pool, size_t keep);
cu_result pools_destroy(cu_cuMemPoolDestroy_call *real, cu_mem_pool pool);

#endif
