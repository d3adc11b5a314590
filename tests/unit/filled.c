/* SPDX-License-Identifier: MIT */
#include "filled.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpushare_buffer *part_filled(struct gpushare_session *session, const char *name, size_t size,
				    unsigned int seed)
{
	struct gpushare_buffer *buffer;
	unsigned char *bytes = part_pattern(size, seed);

	OK(gpushare_alloc(session, name, 0, size, &buffer));
	OK(gpushare_copy_to(buffer, 0, bytes, size));
	free(bytes);
	return buffer;
}

struct gpushare_buffer *part_begin(const struct driver **out_driver,
				   struct gpushare_session **out_session)
{
	*out_driver = part_driver();
	*out_session = part_session();
	return part_filled(*out_session, "x", PART_SIZE, 1);
}

cu_stream part_stream(void)
{
	cu_stream stream = NULL;

	CHECK(part_driver()->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	return stream;
}

unsigned int part_attachers(struct gpushare_session *session, const char *name)
{
	struct gpushare_info info;

	OK(gpushare_stat(session, name, &info));
	return info.attachers;
}

uint64_t part_published(struct gpushare_buffer *buffer)
{
	uint64_t sequence = 99;

	OK(gpushare_sequence(buffer, &sequence));
	return sequence;
}

struct gpushare_buffer *part_made(struct gpushare_session *session, const char *name, size_t size,
				  uint32_t flags)
{
	const struct gpushare_alloc_options options = {.flags = flags};
	struct gpushare_buffer *buffer;

	OK(gpushare_alloc_with(session, name, size, &options, &buffer));
	return buffer;
}

struct gpushare_map *part_map(struct gpushare_buffer *buffer, unsigned int access)
{
	struct gpushare_map *map;

	OK(gpushare_map(buffer, 0, gpushare_size(buffer), access, &map));
	return map;
}

void logged_begin(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/log", getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_SIM_LOG", path, 1);
}

int logged(const char *text)
{
	FILE *file = fopen(getenv("GPUSHARE_SIM_LOG"), "re");
	char line[256];
	int count = 0;

	while (file && fgets(line, sizeof(line), file))
		count += strstr(line, text) != NULL;
	if (file)
		fclose(file);
	return count;
}
