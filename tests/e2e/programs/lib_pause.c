// SPDX-License-Identifier: MIT
/*
 * Stops one call of the simulated driver, so that a test can do something meanwhile. Once the file
 * $PAUSE_FILE.armed exists, the next call $PAUSE_AT renames it to $PAUSE_FILE.paused and waits for
 * $PAUSE_FILE.go.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512

static const char *path(char *to, const char *end)
{
	snprintf(to, PATH_SIZE, "%s.%s", getenv("PAUSE_FILE"), end);
	return to;
}

/* The simulated driver calls this when a CUDA call enters it. */
bool gpushare_sim_fails(const char *call, const void *caller);
__attribute__((visibility("default"))) bool gpushare_sim_fails(const char *call, const void *caller)
{
	char armed[PATH_SIZE], other[PATH_SIZE];
	const char *at = getenv("PAUSE_AT");
	int error = errno;

	if (at && !strncmp(call, at, strlen(at)) &&
	    !rename(path(armed, "armed"), path(other, "paused")))
		while (access(path(other, "go"), F_OK))
			usleep(1000);
	errno = error;
	return false;
}
