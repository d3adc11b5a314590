/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_FREED_H
#define GPUSHARE_SHIM_FREED_H
/*
 * Remembers cuMemAlloc memory that the shim freed by cuMemFreeAsync in place of the program's free.
 * The driver accepts a second such free, and then no synchronization of the context ever returns
 * (measured on driver 580). Without the shim, the driver would refuse the program's second free. So
 * the shim remembers the latest of these frees, each with the driver's id of the allocation. While
 * the driver reports the same id, the free is not complete.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"

struct freed {
	cu_deviceptr pointer;
	unsigned long long id; /* 0: the driver can't tell */
};

/* Remember `pointer`; call this before cuMemFreeAsync. */
struct freed freed_put(const struct driver *driver, cu_deviceptr pointer);
/* Forget it, for example because cuMemFreeAsync has failed. */
void freed_forget(const struct freed *one);

/* Could `pointer` be remembered? No lock; one atomic load if nothing is remembered. */
extern atomic_uint freed_count;
bool freed_is_listed(cu_deviceptr pointer); /* the rest of freed_maybe() */
static inline bool freed_maybe(cu_deviceptr pointer)
{
	return atomic_load_explicit(&freed_count, memory_order_acquire) && freed_is_listed(pointer);
}

/* Is `pointer` remembered, and does the driver still have that allocation? If not, forget it. */
bool freed_holds(const struct driver *driver, cu_deviceptr pointer);

#endif
