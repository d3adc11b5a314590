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
	atomic_ulong generation; /* in which it is valid: shim_unload.h */
	_Atomic(const void *) caller;
	_Atomic(void *) real;
};

#define ROUTE_SLOTS 32 /* a power of two */

struct routes { /* entries by caller; if there are too many callers, they evict one another */
	struct route slot[ROUTE_SLOTS];
};

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

/* The first slot to try for a caller, modulo ROUTE_SLOTS. */
static inline uintptr_t route_place(const void *caller)
{
	return (uintptr_t)caller * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

/* Slow paths of route_get() and routes_get(), if the first slot has no entry for the caller. */
void *route_find(struct route *route, const void *caller, const char *symbol,
		 void *(*find)(const void *caller, const char *symbol));
void *routes_find(struct routes *routes, const void *caller, const char *symbol,
		  void *(*find)(const void *caller, const char *symbol));

/* Every call of the program uses these, so a hit calls no function. They take no lock and allocate
 * no memory: safe at any time in any thread. On a miss they call `find`, which may return NULL.
 * errno stays. */
static inline void *route_get(struct route *route, const void *caller, const char *symbol,
			      void *(*find)(const void *caller, const char *symbol))
{
	void *real = route_read(route, caller, unload_now());

	return real ? real : route_find(route, caller, symbol, find);
}

static inline void *routes_get(struct routes *routes, const void *caller, const char *symbol,
			       void *(*find)(const void *caller, const char *symbol))
{
	void *real =
	    route_read(&routes->slot[route_place(caller) % ROUTE_SLOTS], caller, unload_now());

	return real ? real : routes_find(routes, caller, symbol, find);
}

#endif
