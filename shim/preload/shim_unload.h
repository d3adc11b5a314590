/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_UNLOAD_H
#define GPUSHARE_SHIM_UNLOAD_H
/*
 * Remembered addresses, and how they become stale when a library leaves the process. Each is remembered under a
 * generation. The exported dlclose begins a new generation if an object has gone that some remembered address
 * depends on. That costs the program's calls nothing after any other dlclose. Nothing is kept loaded.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The low bits count the calls of dlclose that have not returned; above them stands the generation. */
#define UNLOAD_CLOSING 0xffffUL
#define UNLOAD_UNKNOWN UNLOAD_CLOSING /* no generation */

extern atomic_ulong unload_state;

/* The generation, or UNLOAD_CLOSING bits, which equal none. One atomic load, in every call of the program. */
static inline unsigned long unload_now(void)
{
	return atomic_load_explicit(&unload_state, memory_order_acquire);
}

/* The generation, also during a dlclose that has not unloaded anything yet; else UNLOAD_UNKNOWN. */
unsigned long unload_generation(void);

/*
 * A search whose result is to be remembered begins here. The result depends on the object that holds `address`,
 * or is loaded at `base`. unload_depend() says whether it may be remembered under `search.generation`: not if a
 * dlclose overlapped the search.
 */
struct unload_search {
	unsigned long closes, generation;
};
struct unload_search unload_begin(void);
bool unload_depend(const struct unload_search *search, const void *address);
bool unload_depend_on(const struct unload_search *search, uintptr_t base);

#endif
