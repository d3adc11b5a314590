/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ROUTE_H
#define GPUSHARE_SHIM_ROUTE_H
/* A cache of the functions to which hooks forward the program's calls. An entry is valid until the
 * caller's object or the target's is unloaded. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim_unload.h"

struct route {
	atomic_uint sequence;	 /* odd: being written */
	atomic_ulong generation; /* the generation in which it is valid: shim_unload.h */
	_Atomic(const void *) caller;
	_Atomic(void *) real;
};

/* A cache with an entry for each caller is an array of this size. If there are too many callers,
 * they evict one another. */
#define ROUTE_SLOTS 32 /* a power of two */

/* NULL: there is no valid entry for `caller`, or another thread is writing; search then. */
static inline void *route_read(struct route *route, const void *caller, unsigned long generation)
{
	unsigned int before = atomic_load_explicit(&route->sequence, memory_order_acquire);
	const void *its_caller = atomic_load_explicit(&route->caller, memory_order_relaxed);
	void *real = atomic_load_explicit(&route->real, memory_order_relaxed);
	unsigned long then = atomic_load_explicit(&route->generation, memory_order_relaxed);

	atomic_thread_fence(memory_order_acquire);
	if ((before & 1) || its_caller != caller || then != generation ||
	    atomic_load_explicit(&route->sequence, memory_order_relaxed) != before)
		return NULL;
	return real;
}

/* The first slot to try for a caller, modulo the number of slots. */
static inline uintptr_t route_place(const void *caller)
{
	return (uintptr_t)caller * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

typedef void *route_search(const void *caller, const char *symbol);

/* Slow path of route_get(), if the first slot has no entry for the caller. */
void *route_find(struct route *slots, unsigned int count, const void *caller, const char *symbol,
		 route_search *find);

/* Every call of the program uses this, so a hit calls no function. It takes no lock and allocates
 * no memory: safe at any time in any thread. On a miss it calls `find`, which may return NULL.
 * errno stays unchanged. */
static inline void *route_get(struct route *slots, unsigned int count, const void *caller,
			      const char *symbol, route_search *find)
{
	void *real = route_read(&slots[route_place(caller) % count], caller, unload_now());

	return real ? real : route_find(slots, count, caller, symbol, find);
}

#endif
