/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime's allocating calls. They are exported only to record the caller and the runtime
 * call, for the hook of the driver call that the runtime makes. No call is replaced here.
 */
#include <gnu/libc-version.h>
#include <stddef.h>

#include "base/elf.h"
#include "shim_hooks.h"
#include "shim_route.h"
#include "shim_site.h"

#define RUNTIME_LIBRARY "libcudart.so"
#define RUNTIME_NOT_FOUND 3 /* cudaErrorInitializationError */

struct runtime_extent { /* cudaExtent */
	size_t width, height, depth;
};

/* Does `found` belong to another interposer, preloaded behind us or linked by the program? If an
 * object comes before the C library, it was loaded with the program and is in every object's
 * scope. */
static bool is_interposer(const void *found)
{
	return found && !elf_is_in(found, RUNTIME_LIBRARY, NULL) &&
	       elf_is_before(found, (const void *)gnu_get_libc_version);
}

/*
 * Takes an interposer's function first, then that of the runtime that the caller was linked with:
 * two major versions may be loaded, and one that an RTLD_LOCAL plug-in has loaded is in no other
 * object's scope.
 */
static void *find_real(const void *caller, const char *symbol)
{
	void *next = elf_find_after((const void *)find_real, symbol), *needed;

	if (is_interposer(next))
		return next;
	needed = elf_find_needed(caller, RUNTIME_LIBRARY, symbol);
	return needed ? needed : next;
}

#define RULES_API_cudaMallocAsync_ptsz RULES_API_cudaMallocAsync
#define RULES_API_cudaMallocFromPoolAsync_ptsz RULES_API_cudaMallocFromPoolAsync

#define R(symbol, params, args) \
	SHIM_EXPORT int symbol params; \
	int symbol params \
	{ \
		static struct route routes[ROUTE_SLOTS]; \
		const void *caller = __builtin_return_address(0); \
		int(*real) params = \
		    (int(*) params)route_get(routes, ROUTE_SLOTS, caller, #symbol, find_real); \
		const struct site before = site_here; \
		int result; \
\
		if (!real) \
			return RUNTIME_NOT_FOUND; \
		if (!before.runtime) { \
			site_here.runtime = RULES_API_##symbol; \
			site_here.caller = caller; \
		} \
		result = real args; \
		site_here.runtime = before.runtime; \
		site_here.caller = before.caller; \
		return result; \
	}
SHIM_RUNTIME(R)
#undef R
