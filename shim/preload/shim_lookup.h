/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOOKUP_H
#define GPUSHARE_SHIM_LOOKUP_H
/* Find the driver's real entry points, and replace pointers to them with hooks. */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_unload.h"

/* The result for dlsym_<arch>.S, returned in two registers. */
struct lookup_answer {
	void *value;
	void *next; /* the real dlsym to jump to; NULL: `value` is the answer */
};
struct lookup_answer lookup_dlsym(void *handle, const char *symbol, void *caller);

/*
 * The libcudas of this process that are hooked, each with its own set of hooks. In one process,
 * only the libcuda that cuInit starts first works (contract_lookup): that one is called the driver.
 * All our own calls use the driver. The program's calls into the other libcuda pass through.
 */
#define LOOKUP_HOOKED 2

struct lookup_library {
	struct driver driver;
	uintptr_t base;
	atomic_ulong generation; /* shim_unload.h: the latest in which it was seen loaded */
	atomic_bool started;	 /* cuInit has run: cuCtxGetCurrent has succeeded once */
};
extern _Atomic(struct lookup_library *) lookup_libraries[LOOKUP_HOOKED];
extern atomic_uint lookup_current; /* index of the driver */

/* Slow paths of lookup_hooked(), lookup_passes_by() and lookup_passes(). */
const struct driver *lookup_find_hooked(unsigned int which);
/* Is `which` the driver? Makes it the driver if the one before is unloaded, or if only `which` of
 * the two has started. */
bool lookup_is_driver(unsigned int which);
bool lookup_is_in_other(const void *real);

/* The entry points of libcuda `which`; NULL: it is unloaded. Every call of the program runs this: a
 * few loads. */
static inline const struct driver *lookup_hooked(unsigned int which)
{
	const struct lookup_library *library =
	    atomic_load_explicit(&lookup_libraries[which], memory_order_acquire);

	return library && atomic_load_explicit(&library->generation, memory_order_relaxed) ==
			      unload_now()
		   ? &library->driver
		   : lookup_find_hooked(which);
}

/* The driver's own entry points; NULL while no libcuda is loaded. */
const struct driver *lookup_driver(void);
/* The same, for pending work of our own that a call of the program does as well. NULL also in a
 * forked child and while the process exits. */
const struct driver *lookup_driver_to_end(void);

/* Does a call pass through, because its libcuda is not the driver? Its libcuda is number `which`,
 * or the one that holds `real`. */
static inline bool lookup_passes_by(unsigned int which)
{
	return atomic_load_explicit(&lookup_current, memory_order_relaxed) != which &&
	       !lookup_is_driver(which);
}

static inline bool lookup_passes(const void *real)
{
	return atomic_load_explicit(&lookup_libraries[1], memory_order_relaxed) &&
	       lookup_is_in_other(real);
}

/* An exported hook calls this with `real`, the next definition of its own name. Return true if
 * `real` lies in a libcuda. If so, and if there are rules, that libcuda gets hooks, unless
 * LOOKUP_HOOKED others have them or it is too old. */
bool lookup_meet(const void *real);

/* Does `place` lie in a libcuda? */
bool lookup_is_drivers(const void *place);

/* The hook for the driver function at `pointer`; `pointer` itself if it has none. */
void *lookup_replace(void *pointer);

#endif
