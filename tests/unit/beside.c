/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "beside.h"

void *beside_load(const char *path)
{
	char self[PATH_MAX] = "", whole[2 * PATH_MAX];
	void *library;

	assert_true(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	*strrchr(self, '/') = '\0';
	snprintf(whole, sizeof(whole), "%s/%s", self, path);
	library = dlopen(whole, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fail_msg("%s", dlerror());
	return library;
}
