// SPDX-License-Identifier: MIT
/*
 * Stands for a part of the driver: tests load it under a name that begins with libcuda.so. Its
 * look-ups must find the driver's own functions, not the preload's.
 */
#include <dlfcn.h>
#include <string.h>

int driver_finds_itself(void);

int driver_finds_itself(void)
{
	static const char *const names[] = {"cuMemAlloc_v2", "cuMemFree_v2", "cuGetProcAddress_v2",
					    "cuGetProcAddress"};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int own = 0;

	for (int i = 0; library && i < 4; i++) {
		void *found = dlsym(library, names[i]);
		Dl_info info;

		own += found && dladdr(found, &info) && strstr(info.dli_fname, "/libcuda.so");
	}
	if (library)
		dlclose(library);
	return own;
}
