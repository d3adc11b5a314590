/* SPDX-License-Identifier: MIT */
#include "daemon_fds.h"

#include "unit.h"

#include <dirent.h>
#include <stdio.h>

#include "raw.h"

int daemon_fds(void)
{
	char folder[64];
	struct dirent *entry;
	int count = 0;
	DIR *directory;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", raw_here.pid);
	directory = opendir(folder);
	assert_non_null(directory);
	while ((entry = readdir(directory)))
		count += *entry->d_name != '.';
	closedir(directory);
	return count;
}
