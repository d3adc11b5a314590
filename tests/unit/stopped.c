/* SPDX-License-Identifier: MIT */
#include "stopped.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>

#define TRIES 5000 /* milliseconds, at least */

/* A thread that has ended meanwhile counts as stopped. */
static bool thread_runs(pid_t pid, const char *thread)
{
	char path[64 + 256], state = 'X';
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/stat", pid, thread);
	stat = fopen(path, "re");
	if (!stat)
		return false;
	if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		state = 'X';
	fclose(stat);
	return state != 'T' && state != 'X' && state != 'Z';
}

static bool any_runs(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	bool runs = false;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && !runs && (entry = readdir(folder)))
		runs = *entry->d_name != '.' && thread_runs(pid, entry->d_name);
	if (folder)
		closedir(folder);
	return runs;
}

bool stopped(pid_t pid)
{
	if (pid <= 0 || kill(pid, SIGSTOP))
		return false;
	for (int tries = 0; any_runs(pid); tries++) {
		if (tries == TRIES)
			return false;
		poll(NULL, 0, 1);
	}
	return true;
}
