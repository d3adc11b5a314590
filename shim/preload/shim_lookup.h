/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOOKUP_H
#define GPUSHARE_SHIM_LOOKUP_H
/* Finding the real entry points, and replacing pointers to them by their identity. */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_unload.h"

/* What dlsym_<arch>.S gets back, in two registers. */
struct lookup_answer {
	void *value;
	void *next; /* the real dlsym to jump to; NULL: `value` is the answer */
};
struct lookup_answer lookup_dlsym(void *handle, const char *symbol, void *caller);

/*
 * The libcudas of this process whose look-ups are answered with hooks, each with a set of its own. One process has
 * one driver: of two libcudas only that works which cuInit starts first (contract_lookup). All our own calls go
 * to it. The program's calls into the other one pass.
 */
#define LOOKUP_HOOKED 2

struct lookup_library {
	struct driver driver;
	uintptr_t base;
	atomic_ulong generation; /* shim_unload.h: in which it is known to stand there */
	atomic_bool started;	 /* it has answered once as cuInit lets it */
};
extern _Atomic(struct lookup_library *) lookup_libraries[LOOKUP_HOOKED];
extern atomic_uint lookup_current; /* which of them is the driver */

/* Behind lookup_hooked(), lookup_passes_by() and lookup_passes(). */
const struct driver *lookup_find_hooked(unsigned int which);
/* It is from now on where the one before has gone, or has not started as this one has. */
bool lookup_is_driver(unsigned int which);
bool lookup_is_in_other(const void *real);

/* The entry points of that one; NULL: it is not loaded any more. A few loads, in every call of the program. */
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

/* Is a call into that one, or into the library that holds `real`, not into the driver? */
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

/* The exported entries go on to `real`: the libcuda that holds it is hooked. false: none does. */
bool lookup_meet(const void *real);

/* Does `place` lie in a libcuda? */
bool lookup_is_drivers(const void *place);

/* The hook that stands for `pointer`, or `pointer` itself. */
void *lookup_replace(void *pointer);

#endif
