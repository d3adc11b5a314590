/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

void place_find(const char *directory, char out[PLACE_MAX])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat at;
	char boot[37];

	*out = '\0';
	if (file && fscanf(file, "%36s", boot) == 1 && !stat(directory, &at))
		snprintf(out, PLACE_MAX, "%s/%jx.%jx", boot, (uintmax_t)at.st_dev,
			 (uintmax_t)at.st_ino);
	if (file)
		fclose(file);
}
