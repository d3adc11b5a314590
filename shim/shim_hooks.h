/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOOKS_H
#define GPUSHARE_SHIM_HOOKS_H
/* The entries that shim_list.h's driver calls are replaced by. */
#include <pthread.h>

#include "cuda_abi.h"
#include "shim_list.h"
#include "shim_lookup.h"
#include "shim_state.h"
#include "shim_route.h"
#include "shim_site.h"

#define H(name, params, args) cu_##name##_call hook_##name;
SHIM_HOOKS(H)
SHIM_SYNC(H)
#undef H

/* What an exported entry goes on to: the next definition behind ours. */
void *hooks_find_next(const void *caller, const char *symbol);

#define SHIM_EXPORT __attribute__((visibility("default")))

/*
 * The two entries of one call: the exported one, which goes on to the next definition behind ours, and
 * the one that look-ups get, which goes on to the driver. run(name, real, args) is what both do.
 */
#define HOOKS_ENTRIES(name, params, args, run) \
	SHIM_EXPORT cu_##name##_call name; \
	cu_result name params \
	{ \
		static struct route route; \
		cu_##name##_call *real = \
		    (cu_##name##_call *)route_get(&route, NULL, #name, hooks_find_next); \
\
		if (!real) \
			return CU_NOT_INITIALIZED; \
		if (lookup_passes((const void *)real)) \
			return real args; \
		run(name, real, args); \
	} \
	cu_result hook_##name params \
	{ \
		const struct driver *driver = lookup_driver(); \
\
		if (!driver || !driver->name) \
			return CU_DEINITIALIZED; \
		run(name, driver->name, args); \
	}

/* A thread that is cancelled in `what` goes on to a place of the program's own: it may have our locks, the
 * driver's, or a buffer that has no name yet or has it still. Without rules it has none of these. */
#define HOOKS_WHOLE(what) \
	do { \
		bool guarded = state_is_active(); \
		int cancelling = 0; \
\
		if (guarded) \
			pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling); \
		what; \
		if (guarded) \
			pthread_setcancelstate(cancelling, NULL); \
	} while (0)

/* What such a run() is: `what` gives `result`, and nothing of ours is done besides for the calls that
 * it comes to. Where it `passes`, the call is the program's alone. */
#define HOOKS_RUN(real, args, passes, what) \
	do { \
		cu_result result; \
\
		if (site_here.inside || (passes)) \
			return (real)args; \
		site_here.inside = true; \
		what; \
		site_here.inside = false; \
		return result; \
	} while (0)

#endif
