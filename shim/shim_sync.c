/* SPDX-License-Identifier: MIT */
/* The replaced calls that wait for the GPU: behind one that went well the named buffers are published. */
#include "shim_hooks.h"
#include "shim_lookup.h"
#include "shim_pages.h"
#include "shim_route.h"
#include "shim_site.h"
#include "shim_state.h"

/* One call of the program publishes once, whatever it meets of ours on its way. */
#define RUN(real, args) \
	do { \
		cu_result result; \
\
		if (site_here.inside || !state_publishes(PUBLISH_SYNC)) \
			return (real)args; \
		site_here.inside = true; \
		result = (real)args; \
		if (result == CU_OK) \
			pages_publish(); \
		site_here.inside = false; \
		return result; \
	} while (0)

#define S(name, params, args) \
	SHIM_EXPORT cu_##name##_call name; \
	cu_result name params \
	{ \
		static struct route route; \
		cu_##name##_call *real = \
		    (cu_##name##_call *)route_get(&route, NULL, #name, hooks_find_next); \
\
		if (!real) \
			return CU_NOT_INITIALIZED; \
		RUN(real, args); \
	} \
	cu_result hook_##name params \
	{ \
		const struct driver *driver = lookup_driver(); \
\
		if (!driver || !driver->name) \
			return CU_DEINITIALIZED; \
		RUN(driver->name, args); \
	}
SHIM_SYNC(S)
#undef S
