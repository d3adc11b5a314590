/* SPDX-License-Identifier: MIT */
/* Preloaded: $PROC_NVIDIA replaces /proc/driver/nvidia, where a real driver lists the GPUs. */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER "/proc/driver/nvidia/"

static const char *replace(const char *path, char with[PATH_MAX])
{
	if (strncmp(path, FOLDER, strlen(FOLDER)) != 0)
		return path;
	snprintf(with, PATH_MAX, "%s/%s", getenv("PROC_NVIDIA"), path + strlen(FOLDER));
	return with;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) =
	    (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	char with[PATH_MAX];

	return real(replace(path, with), mode);
}

int glob(const char *pattern, int flags, int (*failed)(const char *, int), glob_t *out)
{
	int (*real)(const char *, int, int (*)(const char *, int), glob_t *) =
	    (int (*)(const char *, int, int (*)(const char *, int), glob_t *))dlsym(RTLD_NEXT,
										    "glob");
	char with[PATH_MAX];

	return real(replace(pattern, with), flags, failed, out);
}
