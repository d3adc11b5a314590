/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RIGHTS_H
#define GPUSHARE_SHIM_RIGHTS_H
/* Who else may have a buffer, as its record says, to be said again to a registry that has lost that. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* "": this process's own group, which need not be named, nobody's, or one that it may not name. */
static inline void rights_name_group(uint32_t gid, char *out_group, size_t size)
{
	bool mine = gid == getegid() || gid == UINT32_MAX;

	*out_group = '\0';
	if (!mine && (!geteuid() || group_member(gid)))
		snprintf(out_group, size, "%" PRIu32, gid);
}

#endif
