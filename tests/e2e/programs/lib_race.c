// SPDX-License-Identifier: MIT
/* A library whose constructor, under the loader's lock, sleeps for 1 ms and looks up symbols. */
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
