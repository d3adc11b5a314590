// SPDX-License-Identifier: MIT
/* A plug-in, loaded RTLD_LOCAL: RTLD_DEFAULT searches its scope only if dlsym knows the caller. */
#include <dlfcn.h>
#include <stddef.h>

int plugin_private(void);
int plugin_finds_itself(void);

int plugin_private(void)
{
	return 42;
}

int plugin_finds_itself(void)
{
	int (*found)(void) = dlsym(RTLD_DEFAULT, "plugin_private");

	return found ? found() : -1;
}
