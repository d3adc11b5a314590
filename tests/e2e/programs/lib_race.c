// SPDX-License-Identifier: MIT
/* Its constructor, with the loader's lock held, takes its time and then looks up. */
#include <dlfcn.h>
#include <time.h>

__attribute__((constructor)) static void look(void)
{
	const struct timespec nap = {0, 1000000};

	nanosleep(&nap, 0);
	dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	dlsym(RTLD_NEXT, "cuGetProcAddress_v2");
	dlsym(RTLD_DEFAULT, "getenv");
}
