/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOOKUP_H
#define GPUSHARE_SHIM_LOOKUP_H
/* Finding the real entry points, and replacing pointers to them by their identity. */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/driver.h"

/* What dlsym_<arch>.S gets back, in two registers. */
struct lookup_answer {
	void *value;
	void *next; /* the real dlsym to jump to; NULL: `value` is the answer */
};
struct lookup_answer lookup_dlsym(void *handle, const char *symbol, void *caller);

/* The driver's own entry points, of the libcuda that is loaded now; NULL while none is. */
const struct driver *lookup_driver(void);

/* Does `place` lie in a libcuda? */
bool lookup_is_drivers(const void *place);

/* Does `real` lie in a libcuda that is not lookup_driver()'s? Its calls pass: we can't name its memory.
 * One atomic load where the first libcuda that was loaded is the driver. */
extern atomic_bool lookup_has_rival;
bool lookup_is_rival(const void *real);
static inline bool lookup_passes(const void *real)
{
	return atomic_load_explicit(&lookup_has_rival, memory_order_relaxed) &&
	       lookup_is_rival(real);
}

/* The hook that stands for `pointer`, or `pointer` itself. */
void *lookup_replace(void *pointer);

#endif
