/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RIGHTS_H
#define GPUSHARE_SHIM_RIGHTS_H
/* A buffer's access rights, taken from its record, to report them to a registry that has lost
 * them. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* Sets *out_group to `gid` as text, or to "" if `gid` is this process's own group. If this process
 * may not name the group, or `gid` is UINT32_MAX (no group), *out_group is "", too, which means the
 * own group. So that this group gets no rights, the group's bits of *mode are then cleared. If no
 * other bits were set, *mode becomes 0600. */
static inline void rights_name_group(uint32_t gid, uint32_t *mode, char *out_group, size_t size)
{
	*out_group = '\0';
	if (gid == getegid())
		return;
	if (gid != UINT32_MAX && (!geteuid() || group_member(gid)))
		snprintf(out_group, size, "%" PRIu32, gid);
	else if (*mode & ~UINT32_C(0060))
		*mode &= ~UINT32_C(0060);
	else if (*mode)
		*mode = 0600;
}

#endif
