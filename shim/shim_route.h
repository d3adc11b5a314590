/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ROUTE_H
#define GPUSHARE_SHIM_ROUTE_H
/* Remembered: where a call of the program goes on to, until some library is unloaded. */
#include <stdatomic.h>
#include <stdbool.h>

struct route {
	atomic_uint sequence; /* odd: being written */
	atomic_uint unloads;
	_Atomic(const void *) caller;
	_Atomic(void *) real;
};

#define ROUTE_SLOTS 32 /* a power of two */

struct routes { /* by caller; where more callers meet than there is room, they take turns */
	struct route slot[ROUTE_SLOTS];
};

/* No lock, no memory: safe at any time in any thread. `find` is asked where nothing is remembered,
 * and may answer NULL; errno stays as it was. */
void *route_get(struct route *route, const void *caller, const char *symbol,
		void *(*find)(const void *caller, const char *symbol));
void *routes_get(struct routes *routes, const void *caller, const char *symbol,
		 void *(*find)(const void *caller, const char *symbol));

#endif
