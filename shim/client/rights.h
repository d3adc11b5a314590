/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_RIGHTS_H
#define GPUSHARE_SHIM_RIGHTS_H
/* Who else may have a buffer, as its record says, to be said again to a registry that has lost that. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* "": this process's own group, which need not be named. Nobody's, or one that it may not name, would be
 * taken for that: then *mode says nothing of a group. */
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
