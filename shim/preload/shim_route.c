/* SPDX-License-Identifier: MIT */
#include "shim_route.h"

#include <errno.h>

#define WAYS 4 /* slots that one caller may use */

static void write_route(struct route *route, const void *caller, unsigned long generation,
			void *real)
{
	unsigned int before = atomic_load_explicit(&route->sequence, memory_order_relaxed);

	if ((before & 1) ||
	    !atomic_compare_exchange_strong_explicit(&route->sequence, &before, before + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&route->caller, caller, memory_order_relaxed);
	atomic_store_explicit(&route->real, real, memory_order_relaxed);
	atomic_store_explicit(&route->generation, generation, memory_order_relaxed);
	atomic_store_explicit(&route->sequence, before + 2, memory_order_release);
}

static void *find_anew(struct route *route, const void *caller, const char *symbol,
		       route_search *find)
{
	const struct unload_search search = unload_begin();
	int error = errno;
	void *real = find(caller, symbol);

	if (real && unload_depend(&search, caller) && unload_depend(&search, real))
		write_route(route, caller, search.generation, real);
	errno = error;
	return real;
}

static bool is_free(const struct route *route, unsigned long generation)
{
	return atomic_load_explicit(&route->generation, memory_order_relaxed) != generation ||
	       !atomic_load_explicit(&route->real, memory_order_relaxed);
}

/* A miss fills the first empty or stale slot. If there is none, it overwrites the caller's first
 * slot, the only one that route_get() reads. */
void *route_find(struct route *slots, unsigned int count, const void *caller, const char *symbol,
		 route_search *find)
{
	uintptr_t place = route_place(caller);
	unsigned long generation = unload_generation();
	struct route *first = &slots[place % count], *victim = NULL;

	for (unsigned int i = 0; i < WAYS && i < count; i++) {
		struct route *route = &slots[(place + i) % count];
		void *real = route_read(route, caller, generation);

		if (real)
			return real;
		if (!victim && is_free(route, generation))
			victim = route;
	}
	return find_anew(victim ? victim : first, caller, symbol, find);
}
