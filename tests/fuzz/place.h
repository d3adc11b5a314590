/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_PLACE_H
#define TESTS_FUZZ_PLACE_H
/*
 * A directory of this process, in memory if /dev/shm can be written, for the files that a registry
 * leaves to the next.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "persist/records.h"

static char place_path[64];
static int place = -1;

static void place_leave(void)
{
	static const char *const files[] = {RECORDS_FILE, RECORDS_FILE ".new"};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		unlinkat(place, files[i], 0);
	close(place);
	rmdir(place_path);
}

static int instance_open(void)
{
	if (place < 0) {
		strcpy(place_path, "/dev/shm/gpushare-fuzz-XXXXXX");
		if (!mkdtemp(place_path)) {
			strcpy(place_path, "/tmp/gpushare-fuzz-XXXXXX");
			FUZZ_MUST(mkdtemp(place_path));
		}
		place = open(place_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		FUZZ_MUST(place >= 0);
		atexit(place_leave);
	}
	return place;
}

/* Open the directory again: records_open() takes ownership of the descriptor. */
static int place_again(void)
{
	return openat(instance_open(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

#endif
