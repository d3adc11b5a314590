/* SPDX-License-Identifier: MIT */
#include "shim_unload.h"

#include <dlfcn.h>

#include "driver.h"
#include "shim_hooks.h"

atomic_uint unload_counted;

/* The next one, somebody's who was preloaded too, or the C library's own. */
static int (*find_dlclose(void))(void *)
{
	void *(*look_up)(void *, const char *) = driver_real_dlsym();
	void *behind = look_up ? look_up(RTLD_NEXT, "dlclose") : NULL;

	return (int (*)(void *))(behind ? behind : driver_libc("dlclose"));
}

/* Counted before, for who looks while destructors run, and after, when the library has gone. */
SHIM_EXPORT int dlclose(void *handle)
{
	static _Atomic(int (*)(void *)) known;
	int (*real)(void *) = atomic_load_explicit(&known, memory_order_acquire);
	int result;

	if (!real) {
		real = find_dlclose();
		if (!real)
			return -1;
		atomic_store_explicit(&known, real, memory_order_release);
	}
	atomic_fetch_add_explicit(&unload_counted, 1, memory_order_acq_rel);
	result = real(handle);
	atomic_fetch_add_explicit(&unload_counted, 1, memory_order_acq_rel);
	return result;
}
