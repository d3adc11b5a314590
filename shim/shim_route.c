/* SPDX-License-Identifier: MIT */
#include "shim_route.h"

#include <errno.h>

#include "shim_elf.h"

#define WAYS 4 /* slots in which one caller may stand */

/* The counts of dlclose and of unloaded objects. Both are read before a search: an unload during the
 * search makes its answer stale. */
struct counts {
	unsigned int unloads;
	unsigned long long unloaded;
};

static struct counts read_counts(void)
{
	struct counts counts = {.unloads = unload_count()};

	counts.unloaded = elf_unloaded();
	return counts;
}

static void write_route(struct route *route, const void *caller, const struct counts *counts,
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
	atomic_store_explicit(&route->unloads, counts->unloads, memory_order_relaxed);
	atomic_store_explicit(&route->unloaded, counts->unloaded, memory_order_relaxed);
	atomic_store_explicit(&route->sequence, before + 2, memory_order_release);
}

/* The remembered answer, if no object was unloaded since; the next route_read() takes it again. */
static void *renew(struct route *route, const void *caller, const struct counts *counts)
{
	unsigned int sequence = atomic_load_explicit(&route->sequence, memory_order_acquire);
	unsigned int unloads = atomic_load_explicit(&route->unloads, memory_order_relaxed);
	unsigned long long unloaded = atomic_load_explicit(&route->unloaded, memory_order_relaxed);
	void *real = route_read(route, caller, unloads);

	/* route_read() has seen the same sequence before and after: no write between the loads above
	 * and its own goes unnoticed. */
	if (!real || unloaded != counts->unloaded ||
	    atomic_load_explicit(&route->sequence, memory_order_relaxed) != sequence)
		return NULL;
	if (unloads != counts->unloads)
		write_route(route, caller, counts, real);
	return real;
}

static void *find_anew(struct route *route, const void *caller, const char *symbol,
		       const struct counts *counts, void *(*find)(const void *, const char *))
{
	int error = errno;
	void *real = find(caller, symbol);

	if (real)
		write_route(route, caller, counts, real);
	errno = error;
	return real;
}

void *route_find(struct route *route, const void *caller, const char *symbol,
		 void *(*find)(const void *caller, const char *symbol))
{
	const struct counts counts = read_counts();
	void *real = renew(route, caller, &counts);

	return real ? real : find_anew(route, caller, symbol, &counts, find);
}

void *route_find_anew(struct route *route, const void *caller, const char *symbol,
		      void *(*find)(const void *caller, const char *symbol))
{
	const struct counts counts = {.unloads = unload_count()};

	return find_anew(route, caller, symbol, &counts, find);
}

static bool is_free(const struct route *route, const struct counts *counts)
{
	return atomic_load_explicit(&route->unloaded, memory_order_relaxed) != counts->unloaded ||
	       !atomic_load_explicit(&route->real, memory_order_relaxed);
}

/* Where nothing is, or what is stale, the first place of all: routes_get() looks there. */
void *routes_find(struct routes *routes, const void *caller, const char *symbol,
		  void *(*find)(const void *caller, const char *symbol))
{
	uintptr_t place = route_place(caller);
	const struct counts counts = read_counts();
	struct route *victim = NULL;

	for (unsigned int i = 0; i < WAYS; i++) {
		struct route *route = &routes->slot[(place + i) % ROUTE_SLOTS];
		void *real = renew(route, caller, &counts);

		if (real)
			return real;
		if (!victim && is_free(route, &counts))
			victim = route;
	}
	if (!victim)
		victim = &routes->slot[place % ROUTE_SLOTS];
	return find_anew(victim, caller, symbol, &counts, find);
}
