/* SPDX-License-Identifier: MIT */
#include "shim_route.h"

#include <errno.h>
#include <stdint.h>

#include "shim_unload.h"

#define WAYS 4 /* slots in which one caller may stand */

/* False also while another thread writes: then it is found once more. */
static bool read_route(struct route *route, const void *caller, unsigned int unloads, void **out)
{
	unsigned int before = atomic_load_explicit(&route->sequence, memory_order_acquire);
	const void *its_caller = atomic_load_explicit(&route->caller, memory_order_relaxed);
	void *real = atomic_load_explicit(&route->real, memory_order_relaxed);
	unsigned int then = atomic_load_explicit(&route->unloads, memory_order_relaxed);

	atomic_thread_fence(memory_order_acquire);
	if ((before & 1) || !real || its_caller != caller || then != unloads ||
	    atomic_load_explicit(&route->sequence, memory_order_relaxed) != before)
		return false;
	*out = real;
	return true;
}

static void write_route(struct route *route, const void *caller, unsigned int unloads, void *real)
{
	unsigned int before = atomic_load_explicit(&route->sequence, memory_order_relaxed);

	if ((before & 1) ||
	    !atomic_compare_exchange_strong_explicit(&route->sequence, &before, before + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&route->caller, caller, memory_order_relaxed);
	atomic_store_explicit(&route->real, real, memory_order_relaxed);
	atomic_store_explicit(&route->unloads, unloads, memory_order_relaxed);
	atomic_store_explicit(&route->sequence, before + 2, memory_order_release);
}

/* The count is read before the search: what is unloaded meanwhile makes the answer stale. */
static void *find_anew(struct route *route, const void *caller, const char *symbol,
		       unsigned int unloads, void *(*find)(const void *, const char *))
{
	int error = errno;
	void *real = find(caller, symbol);

	if (real)
		write_route(route, caller, unloads, real);
	errno = error;
	return real;
}

void *route_get(struct route *route, const void *caller, const char *symbol,
		void *(*find)(const void *caller, const char *symbol))
{
	unsigned int unloads = unload_count();
	void *real;

	if (read_route(route, caller, unloads, &real))
		return real;
	return find_anew(route, caller, symbol, unloads, find);
}

void *routes_get(struct routes *routes, const void *caller, const char *symbol,
		 void *(*find)(const void *caller, const char *symbol))
{
	uintptr_t mixed = (uintptr_t)caller * UINT64_C(0x9e3779b97f4a7c15) >> 40;
	unsigned int unloads = unload_count();
	struct route *victim = &routes->slot[mixed % ROUTE_SLOTS];
	void *real;

	for (unsigned int i = 0; i < WAYS; i++) {
		struct route *route = &routes->slot[(mixed + i) % ROUTE_SLOTS];

		if (read_route(route, caller, unloads, &real))
			return real;
		if (atomic_load_explicit(&route->unloads, memory_order_relaxed) != unloads ||
		    !atomic_load_explicit(&route->real, memory_order_relaxed))
			victim = route; /* empty or stale */
	}
	return find_anew(victim, caller, symbol, unloads, find);
}
