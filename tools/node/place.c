/* SPDX-License-Identifier: MIT */
#include "place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
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

struct gpushare_tag place_tag(const char *place, const struct gpushare_info *source,
			      uint64_t sequence)
{
	struct gpushare_tag tag = {.key = "copy-of"};

	if (*place)
		snprintf(tag.value, sizeof(tag.value), "%s/%" PRIx64 ".%" PRIx64 "@%" PRIx64, place,
			 source->generation, source->sequence, sequence);
	return tag;
}

bool place_is_copy(const char *place, const struct gpushare_info *source,
		   const struct gpushare_info *copy)
{
	struct gpushare_tag tag = place_tag(place, source, copy->sequence);

	for (uint32_t i = 0; *tag.value && i < copy->tag_count; i++)
		if (!strcmp(copy->tags[i].key, tag.key))
			return !strcmp(copy->tags[i].value, tag.value);
	return false;
}
