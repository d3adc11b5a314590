/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_UNLOAD_H
#define GPUSHARE_SHIM_UNLOAD_H
/*
 * Tells whether cached addresses are still valid after a library was unloaded. Each address is
 * cached under a generation. If the exported dlclose unloads an object that a cached address may
 * depend on, it begins a new generation. After any other dlclose the cache stays valid. Nothing is
 * kept loaded.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The low bits count the calls of dlclose that are running. The bits above are the generation. */
#define UNLOAD_CLOSING 0xffffUL
#define UNLOAD_UNKNOWN UNLOAD_CLOSING /* no generation */

extern atomic_ulong unload_state;

/* The generation; during a dlclose, a value that equals no generation. Every call of the program
 * runs this: one atomic load. */
static inline unsigned long unload_now(void)
{
	return atomic_load_explicit(&unload_state, memory_order_acquire);
}

/* The generation. If a dlclose is running and has unloaded something: UNLOAD_UNKNOWN. */
unsigned long unload_generation(void);

/*
 * A search for an address to cache. unload_begin() starts it. unload_depend() notes that the result
 * depends on the object that holds `address`. True: the result may be cached under
 * `search->generation`. False: a dlclose overlapped the search.
 */
struct unload_search {
	unsigned long closes, generation;
};
struct unload_search unload_begin(void);
bool unload_depend(const struct unload_search *search, const void *address);

#endif
