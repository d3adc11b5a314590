/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_POOL_H
#define GPUSHARE_SHIM_POOL_H
/*
 * Memory pools whose allocations are answered with other memory. The pool's statistics count that memory as
 * the driver would count the pool's own: the driver's number and ours are one sum.
 */
#include <stdbool.h>

#include "cuda/driver.h"

/* Is there any such pool? One atomic load. */
bool pools_any(void);

/* The number of a pool in struct live: 0 for NULL, or where there are too many pools. No number is used again. */
unsigned int pools_number(cu_mem_pool pool);
/* NULL: that pool has been destroyed. */
cu_mem_pool pools_handle(unsigned int number);

/* An allocation of that pool was answered: its memory is in the live table. errno stays. */
void pools_grow(const struct driver *driver, unsigned int number);

/* The calls, which go on to `real` first. */
cu_result pools_get(cu_cuMemPoolGetAttribute_call *real, cu_mem_pool pool,
		    cu_pool_attribute attribute, void *value);
cu_result pools_set(cu_cuMemPoolSetAttribute_call *real, cu_mem_pool pool,
		    cu_pool_attribute attribute, void *value);
cu_result pools_trim(cu_cuMemPoolTrimTo_call *real, cu_mem_pool pool, size_t keep);
cu_result pools_destroy(cu_cuMemPoolDestroy_call *real, cu_mem_pool pool);

#endif
