/* SPDX-License-Identifier: MIT */
/* Preloaded: $PROC_NVIDIA replaces /proc/driver/nvidia, where a real driver lists the GPUs. */
#include <dirent.h>
#include <dlfcn.h>
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

int scandir(const char *path, struct dirent ***out, int (*filter)(const struct dirent *),
	    int (*compare)(const struct dirent **, const struct dirent **))
{
	int (*real)(const char *, struct dirent ***, int (*)(const struct dirent *),
		    int (*)(const struct dirent **, const struct dirent **)) =
	    (int (*)(const char *, struct dirent ***, int (*)(const struct dirent *),
		     int (*)(const struct dirent **, const struct dirent **)))dlsym(RTLD_NEXT,
										    "scandir");
	char with[PATH_MAX];

	return real(replace(path, with), out, filter, compare);
}
