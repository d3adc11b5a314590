/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_UNLOAD_H
#define GPUSHARE_SHIM_UNLOAD_H
/*
 * How often a library may have left the process: what was found by address before that must be
 * found again. The exported dlclose counts and goes on to the real one; nothing is kept loaded.
 */
#include <stdatomic.h>

extern atomic_uint unload_counted;

/* One atomic load, in every call of the program. */
static inline unsigned int unload_count(void)
{
	return atomic_load_explicit(&unload_counted, memory_order_acquire);
}

#endif
