/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_HOOKS_H
#define GPUSHARE_SHIM_HOOKS_H
/* The hooks that replace the driver calls of shim_list.h. */
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda/cuda_abi.h"
#include "shim_list.h"
#include "shim_lookup.h"
#include "shim_route.h"
#include "shim_site.h"

#define H(name, params, args) \
	cu_##name##_call hook_##name; \
	cu_##name##_call second_##name __attribute__((cold));
SHIM_HOOKS(H)
SHIM_SYNC(H)
#undef H

/* Find the function that an exported hook calls: the next definition of the symbol after the
 * shim's. */
void *hooks_find_next(const void *caller, const char *symbol);

#define SHIM_EXPORT __attribute__((visibility("default")))

/* True for cuGetProcAddress, which must return hooks even before a driver has started. */
#define HOOKS_LOOKS_UP(name) (!__builtin_strncmp(#name, "cuGetProcAddress", 16))

/* Defines a hook that look-ups return in place of a function of libcuda number `which`
 * (shim_lookup.h). */
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

/* Defines the three hooks of one call. The exported symbol forwards to the next definition after
 * the shim's. Each of the two hooks that look-ups return forwards to the libcuda whose function it
 * replaces. All three execute run(name, real, args). */
#define HOOKS_ENTRIES(name, params, args, run) \
	SHIM_EXPORT cu_##name##_call name; \
	cu_result name params \
	{ \
		static struct route route; \
		cu_##name##_call *real = \
		    (cu_##name##_call *)route_get(&route, 1, NULL, #name, hooks_find_next); \
\
		if (!real) \
			return CU_NOT_INITIALIZED; \
		if (!HOOKS_LOOKS_UP(name) && lookup_passes((const void *)real)) \
			return real args; \
		run(name, real, args); \
	} \
	HOOKS_HOOK(hook_##name, 0, name, params, args, run) \
	HOOKS_HOOK(second_##name, 1, name, params, args, run)

/* True once an exported hook has found another interposer's function as its next definition; never
 * true without rules. A hooked call may then come from that interposer, so its caller doesn't tell
 * hooks_is_nested() whether the flag `inside` is stale. Instead, the hooks of shim_hooks.c disable
 * cancellation (site_guard()), so that the flag can't become stale. */
extern atomic_bool hooks_stacked;

/* Is a call from `caller` part of the hooked call that set site_here.inside? The flag may be stale:
 * if a thread is cancelled inside the driver, in a call that concerns no name, nothing clears the
 * flag. */
__attribute__((noinline)) bool hooks_is_nested(const void *caller);

/* The body of a run(). The statement `what` sets `result`; hooked calls inside `what` pass through.
 * If `passes` is true, only the real call is made. */
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
