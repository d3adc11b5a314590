/* SPDX-License-Identifier: MIT */
#include "persist/generation.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"

#define GENERATION_FILE "generation"
#define GENERATION_NEW "generation.new"
#define GENERATION_BLOCK (UINT64_C(1) << 20) /* reserved with one write */

/* 0 when there is none or it makes no sense. */
static uint64_t generation_load(int directory)
{
	char text[32] = "";
	char *end;
	uint64_t value;
	ssize_t length = -1;
	int fd = openat(directory, GENERATION_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd >= 0) {
		length = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (length <= 0)
		return 0;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || strcmp(end, "\n") ||
	    strspn(text, "0123456789") + 1 != strlen(text) || value > GENERATION_SANE) {
		log_line("%s holds no number; going by the clock", GENERATION_FILE);
		return 0;
	}
	return value;
}

static bool generation_store(int directory, uint64_t value)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);
	bool written;
	int fd;

	/* Never through a link, and never into a file that somebody has open. */
	unlinkat(directory, GENERATION_NEW, 0);
	fd = openat(directory, GENERATION_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	written = write(fd, text, (size_t)length) == length;
	if (close(fd) < 0 || !written)
		return false;
	return renameat(directory, GENERATION_NEW, directory, GENERATION_FILE) == 0;
}

static void generation_reserve(struct generation *generation)
{
	generation->reserved = generation->next + GENERATION_BLOCK;
	if (generation->directory >= 0 &&
	    !generation_store(generation->directory, generation->reserved))
		log_line("can't write %s: %s; going by the clock", GENERATION_FILE,
			 strerror(errno));
}

void generation_init(struct generation *generation, const char *path)
{
	uint64_t clock = clock_unix_ns() / 1000;
	uint64_t stored = 0;

	generation->directory = -1;
	if (path)
		generation->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (generation->directory >= 0)
		stored = generation_load(generation->directory);
	generation->next = stored > clock ? stored : clock;
	generation_reserve(generation);
}

void generation_finish(struct generation *generation)
{
	if (generation->directory >= 0)
		close(generation->directory);
	generation->directory = -1;
}

void generation_pass(struct generation *generation, uint64_t used)
{
	if (used <= generation->next || used > GENERATION_SANE)
		return;
	generation->next = used;
	if (generation->next >= generation->reserved)
		generation_reserve(generation);
}

uint64_t generation_take(struct generation *generation)
{
	if (generation->next + 1 >= generation->reserved)
		generation_reserve(generation);
	return ++generation->next;
}
