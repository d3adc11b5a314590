/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOOKS_H
#define GPUSHARE_SHIM_HOOKS_H
/* The entries that shim_list.h's driver calls are replaced by. */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/cuda_abi.h"
#include "shim_list.h"
#include "shim_lookup.h"
#include "shim_state.h"
#include "shim_route.h"
#include "shim_site.h"

#define H(name, params, args) \
	cu_##name##_call hook_##name; \
	cu_##name##_call second_##name __attribute__((cold));
SHIM_HOOKS(H)
SHIM_SYNC(H)
#undef H

/* What an exported entry goes on to: the next definition behind ours. */
void *hooks_find_next(const void *caller, const char *symbol);

#define SHIM_EXPORT __attribute__((visibility("default")))

/* What the program looks up is to be hooked before any driver has started. */
#define HOOKS_LOOKS_UP(name) (!__builtin_strncmp(#name, "cuGetProcAddress", 16))

/* One that look-ups get in the place of a libcuda's own. */
#define HOOKS_HOOK(hook, which, name, params, args, run) \
	cu_result hook params \
	{ \
		const struct driver *driver = lookup_hooked(which); \
\
		if (!driver || !driver->name) \
			return CU_DEINITIALIZED; \
		if (!HOOKS_LOOKS_UP(name) && lookup_passes_by(which)) \
			return driver->name args; \
		run(name, driver->name, args); \
	}

/*
 * The entries of one call: the exported one, which goes on to the next definition behind ours, and those that
 * look-ups get, which go on to their libcuda. run(name, real, args) is what all do.
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
		if (!HOOKS_LOOKS_UP(name) && lookup_passes((const void *)real)) \
			return real args; \
		run(name, real, args); \
	} \
	HOOKS_HOOK(hook_##name, 0, name, params, args, run) \
	HOOKS_HOOK(second_##name, 1, name, params, args, run)

/* Has an exported entry gone on to another interposer? It may call us in its turn. */
extern atomic_bool hooks_stacked;

/* Is a call from `caller` part of the call that site_here.inside tells of? A thread that was cancelled in the
 * driver's part of an unnamed call has left that one without an end. */
__attribute__((noinline)) bool hooks_is_nested(const void *caller);

/* While another interposer may call us, no cancelled thread may leave site_here.inside set. */
__attribute__((noinline)) void hooks_guard_stacked(void);

/* What such a run() is: `what` gives `result`, and nothing of ours is done besides for the calls that
 * it comes to. Where it `passes`, the call is the program's alone. */
#define HOOKS_RUN(real, args, passes, what) \
	do { \
		cu_result result; \
\
		if ((passes) || \
		    (site_here.inside && hooks_is_nested(__builtin_return_address(0)))) \
			return (real)args; \
		site_here.inside = true; \
		what; \
		site_here.inside = false; \
		if (site_here.guarded) \
			site_unguard(); \
		return result; \
	} while (0)

#endif
