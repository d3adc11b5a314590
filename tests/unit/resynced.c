/* SPDX-License-Identifier: MIT */
#include "resynced.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct driver *resynced_act(const char *names, const char *attaches)
{
	scripted = (struct scripted){.generation = 100};
	strcpy(scripted.directory, getenv("GPUSHARE_DIR"));
	setenv("GPUSHARE_TIMEOUT_MS", "600", 1);
	setenv("GPUSHARE_AUTOSTART", "0", 1);
	scripted_start();
	return preloaded(names, attaches);
}

void resynced_restart(void)
{
	scripted_end();
	scripted.shares_count = 0;
	scripted.came = 0;
	memset(scripted.asked, 0, sizeof(scripted.asked));
	scripted_start();
}

cu_deviceptr resynced_alloc(size_t size)
{
	cu_deviceptr pointer;

	errno = 77;
	CHECK(preloaded_alloc(&pointer, size) == CU_OK && errno == 77);
	return pointer;
}

void resynced_free(cu_deviceptr pointer)
{
	errno = 77;
	CHECK(preloaded_free(pointer) == CU_OK && errno == 77);
}

bool resynced_is_told(const char *name, uint64_t generation)
{
	for (size_t i = 0; i < scripted.shared_count; i++)
		if (!strcmp(scripted.shared[i].name, name))
			return scripted.shared[i].generation == generation;
	return false;
}

const gpushare_Share *resynced_share(const char *name)
{
	for (size_t i = 0; i < scripted.shares_count; i++)
		if (!strcmp(scripted.shares[i].buffer.name, name))
			return &scripted.shares[i];
	part_fail(__FILE__, __LINE__, "%s was not shared again", name);
	return NULL;
}
