/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOOKUP_H
#define GPUSHARE_SHIM_LOOKUP_H
/* Finding the real entry points, and replacing pointers to them by their identity. */
#include "driver.h"

/* What dlsym_<arch>.S gets back, in two registers. */
struct lookup_answer {
	void *value;
	void *next; /* the real dlsym to jump to; NULL: `value` is the answer */
};
struct lookup_answer lookup_dlsym(void *handle, const char *symbol, void *caller);

/* The driver's own entry points, of the libcuda that is loaded now; NULL while none is. */
const struct driver *lookup_driver(void);

/* The hook that stands for `pointer`, or `pointer` itself. */
void *lookup_replace(void *pointer);

#endif
