/* SPDX-License-Identifier: MIT */
#include "shim_route.h"

#include <errno.h>

#define WAYS 4 /* slots in which one caller may stand */

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

void *route_find(struct route *route, const void *caller, const char *symbol,
		 void *(*find)(const void *caller, const char *symbol))
{
	return find_anew(route, caller, symbol, unload_count(), find);
}

static bool is_free(const struct route *route, unsigned int unloads)
{
	return atomic_load_explicit(&route->unloads, memory_order_relaxed) != unloads ||
	       !atomic_load_explicit(&route->real, memory_order_relaxed);
}

/* Where nothing is, or what is stale, the first place of all: routes_get() looks there. */
void *routes_find(struct routes *routes, const void *caller, const char *symbol,
		  void *(*find)(const void *caller, const char *symbol))
{
	uintptr_t place = route_place(caller);
	unsigned int unloads = unload_count();
	struct route *victim = NULL;

	for (unsigned int i = 0; i < WAYS; i++) {
		struct route *route = &routes->slot[(place + i) % ROUTE_SLOTS];
		void *real = route_read(route, caller, unloads);

		if (real)
			return real;
		if (!victim && is_free(route, unloads))
			victim = route;
	}
	if (!victim)
		victim = &routes->slot[place % ROUTE_SLOTS];
	return find_anew(victim, caller, symbol, unloads, find);
}
