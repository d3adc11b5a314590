// SPDX-License-Identifier: MIT
/* Preloaded: emulates a slow name service. Looking up a group's name takes 200 ms. */
#include <dlfcn.h>
#include <grp.h>
#include <unistd.h>

__attribute__((visibility("default"))) int getgrnam_r(const char *name, struct group *group,
						      char *room, size_t size, struct group **out)
{
	int (*real)(const char *, struct group *, char *, size_t, struct group **) =
	    (int (*)(const char *, struct group *, char *, size_t, struct group **))dlsym(
		RTLD_NEXT, "getgrnam_r");

	usleep(200000);
	return real(name, group, room, size, out);
}
