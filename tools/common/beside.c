/* SPDX-License-Identifier: MIT */
#include "beside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SHIM "libgpushare_shim.so"

#if defined(__x86_64__)
#define MULTIARCH "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#error "gpushare runs on x86-64 and aarch64"
#endif

static const char *const places[] = {"", "../lib/", "../lib/" MULTIARCH "/"};

/* This program's directory, with a slash at the end. */
static void find_self(char out[PATH_MAX])
{
	ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	out[length > 0 ? length : 0] = '\0';
	slash = strrchr(out, '/');
	if (slash)
		slash[1] = '\0';
}

static bool is_usable(const char *path, int how, char out[PATH_MAX])
{
	return realpath(path, out) && !access(out, how);
}

bool beside_shim(char out[PATH_MAX], char why[BESIDE_WHY_MAX])
{
	const char *given = getenv("GPUSHARE_SHIM");
	char self[PATH_MAX], path[PATH_MAX + 64];

	if (given && *given) {
		if (is_usable(given, R_OK, out))
			return true;
		snprintf(why, BESIDE_WHY_MAX, "GPUSHARE_SHIM names '%s', which can't be read: %s",
			 given, strerror(errno));
		return false;
	}
	find_self(self);
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		snprintf(path, sizeof(path), "%s%s" SHIM, self, places[i]);
		if (is_usable(path, R_OK, out))
			return true;
	}
	snprintf(why, BESIDE_WHY_MAX,
		 SHIM " was not found in %s, its ../lib or ../lib/" MULTIARCH
		      "; set GPUSHARE_SHIM to its path",
		 self);
	return false;
}

static bool find_on_path(const char *name, char out[PATH_MAX])
{
	const char *folders = getenv("PATH");
	_cleanup_free_ char *all = strdup(folders ? folders : "");
	char path[PATH_MAX + 64], *rest = all;

	for (const char *folder; all && (folder = strsep(&rest, ":"));) {
		snprintf(path, sizeof(path), "%s/%s", *folder ? folder : ".", name);
		if (is_usable(path, X_OK, out))
			return true;
	}
	return false;
}

bool beside_program(const char *name, char out[PATH_MAX])
{
	char path[PATH_MAX + 64], self[PATH_MAX];

	find_self(self);
	snprintf(path, sizeof(path), "%s%s", self, name);
	return is_usable(path, X_OK, out) || find_on_path(name, out);
}
