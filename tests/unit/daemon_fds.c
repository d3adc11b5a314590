/* SPDX-License-Identifier: MIT */
#include "daemon_fds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the three above, and string.h, first */
#include <string.h>

#include <cmocka.h>

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
