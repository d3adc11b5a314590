/* SPDX-License-Identifier: MIT */
#include "shim_site.h"

#include <string.h>

__thread struct site site_here;

bool site_is_internal(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, "libnccl", strlen("libnccl"));
}
