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
 * The driver: the first libcuda in which the program has looked a hooked call up, or which it has
 * called through an exported hook. Another libcuda gets no hooks while this one stays loaded.
 */
struct lookup_library {
	struct driver driver;
	uintptr_t base;
	atomic_ulong generation; /* shim_unload.h: the latest in which it was seen loaded */
};
extern _Atomic(struct lookup_library *) lookup_library;

/* Slow path of lookup_driver(). */
const struct driver *lookup_find_driver(void);

/* The driver's own entry points; NULL while no libcuda is loaded. Every call of the program runs
 * this: a few loads. */
static inline const struct driver *lookup_driver(void)
{
	const struct lookup_library *known =
	    atomic_load_explicit(&lookup_library, memory_order_acquire);

	return known && atomic_load_explicit(&known->generation, memory_order_relaxed) ==
			    unload_now()
		   ? &known->driver
		   : lookup_find_driver();
}

/* The same for work that a call of the program finishes beside its own; NULL also in a forked child
 * and while the process exits. */
const struct driver *lookup_driver_to_end(void);

/* An exported hook calls this with `real`, the next definition of its own name. Return true if
 * `real` lies in a libcuda. If there are rules, that libcuda becomes the driver, unless another one
 * is or it is too old. */
bool lookup_meet(const void *real);

/* Does `place` lie in a libcuda? */
bool lookup_is_drivers(const void *place);

/* The hook for the driver function at `pointer`; `pointer` itself if it has none. */
void *lookup_replace(void *pointer);

#endif
