/* SPDX-License-Identifier: MIT */
#include "host_crossover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "device.h"
#include "host_copy.h"

#define LEAST ((size_t)64)
#define ROUNDS 3
#define BUDGET_NS ((int64_t)10 * 1000 * 1000) /* each way */
#define SANE ((size_t)1 << 40)
#define LINE_MAX_BYTES 128

static int64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The best of some by each, by turns: what disturbs one disturbs the other. */
static bool race_once(host_race *race, void *user, bool to, size_t size, bool *out_cpu_wins)
{
	int64_t best[2] = {INT64_MAX, INT64_MAX};

	for (int i = 0; i < 2 * ROUNDS; i++) {
		int64_t took = now_ns(CLOCK_MONOTONIC);

		if (!race(user, to, i % 2, size))
			return false;
		took = now_ns(CLOCK_MONOTONIC) - took;
		if (took < best[i % 2])
			best[i % 2] = took;
	}
	*out_cpu_wins = best[0] <= best[1];
	return true;
}

/* Two sizes in a row that the CPU loses end it: one may be an accident. What costs too much is nothing
 * that was thought of, and tells nothing; time that others had is not counted. */
static bool race_all(host_race *race, void *user, bool to, size_t most, size_t *out)
{
	int64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + BUDGET_NS;
	size_t last = 0;
	int lost = 0;

	for (size_t size = LEAST; size <= most && lost < 2; size *= 2) {
		bool wins;

		if (!race_once(race, user, to, size, &wins) ||
		    now_ns(CLOCK_THREAD_CPUTIME_ID) > end)
			return false;
		lost = wins ? 0 : lost + 1;
		if (wins)
			last = size;
	}
	*out = last;
	return true;
}

bool host_crossover_measure(host_race *race, void *user, size_t most, struct host_crossover *out)
{
	struct host_crossover found;

	if (!race_all(race, user, true, most, &found.to) ||
	    !race_all(race, user, false, most, &found.from))
		return false;
	*out = found;
	return true;
}

static bool crossover_path(const char *directory, const unsigned char uuid[GPUSHARE_UUID_SIZE],
			   char out[PATH_MAX])
{
	char text[DEVICE_UUID_TEXT];

	device_uuid_text(uuid, text);
	return snprintf(out, PATH_MAX, "%s/crossover-%s", directory, text) < PATH_MAX;
}

/* All that the file holds; how the CPU copies is a part of what was measured. */
static int crossover_print(const struct host_crossover *crossover, char out[LINE_MAX_BYTES])
{
	return snprintf(out, LINE_MAX_BYTES, "gpushare-crossover 1 %s to %zu from %zu\n",
			host_copy_best()->name, crossover->to, crossover->from);
}

bool host_crossover_load(const char *directory, const unsigned char uuid[GPUSHARE_UUID_SIZE],
			 struct host_crossover *out)
{
	char path[PATH_MAX], line[LINE_MAX_BYTES] = "", again[LINE_MAX_BYTES];
	_cleanup_close_ int fd = -1;
	struct host_crossover found;
	struct stat there;

	if (!crossover_path(directory, uuid, path))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &there) || !S_ISREG(there.st_mode) || there.st_uid != geteuid() ||
	    (there.st_mode & 022) || read(fd, line, sizeof(line) - 1) != there.st_size)
		return false;
	if (sscanf(line, "gpushare-crossover 1 %*s to %zu from %zu", &found.to, &found.from) != 2)
		return false;
	crossover_print(&found, again);
	if (strcmp(line, again) != 0 || found.to > SANE || found.from > SANE)
		return false;
	*out = found;
	return true;
}

void host_crossover_save(const char *directory, const unsigned char uuid[GPUSHARE_UUID_SIZE],
			 const struct host_crossover *crossover)
{
	char path[PATH_MAX], partial[PATH_MAX], line[LINE_MAX_BYTES];
	int length = crossover_print(crossover, line);
	_cleanup_close_ int fd = -1;

	if (!crossover_path(directory, uuid, path) ||
	    snprintf(partial, sizeof(partial), "%s.XXXXXX", path) >= PATH_MAX)
		return;
	fd = mkostemp(partial, O_CLOEXEC); /* 0600 */
	if (fd < 0)
		return;
	if (write(fd, line, (size_t)length) != length || rename(partial, path))
		unlink(partial);
}
