/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_FREED_H
#define GPUSHARE_SHIM_FREED_H
/*
 * Memory of cuMemAlloc that was freed by cuMemFreeAsync in the place of the program's own free. The driver
 * takes a second such free of it, and then no synchronization of the context ever returns (measured on
 * driver 580), while the program would have been refused. So the latest of them are remembered, each by
 * the driver's number of its allocation: the same number means that its free is still on its way.
 */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"

struct freed {
	cu_deviceptr pointer;
	unsigned long long id; /* 0: the driver can't tell */
};

/* Before it is freed so: remembered from here on. */
struct freed freed_put(const struct driver *driver, cu_deviceptr pointer);
/* It was not freed after all. */
void freed_forget(const struct freed *one);

/* Could `pointer` be one? One atomic load where there is none; no lock. */
extern atomic_uint freed_count;
bool freed_is_listed(cu_deviceptr pointer); /* behind freed_maybe() */
static inline bool freed_maybe(cu_deviceptr pointer)
{
	return atomic_load_explicit(&freed_count, memory_order_acquire) && freed_is_listed(pointer);
}

/* Is it one, and no other allocation's by now? What is no more is forgotten. */
bool freed_holds(const struct driver *driver, cu_deviceptr pointer);

#endif
