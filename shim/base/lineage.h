/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LINEAGE_H
#define GPUSHARE_SHIM_LINEAGE_H
/* Is this the process that made something, or one that was forked from it? Without a system call. */
#include <stdbool.h>

/* From now on this process is the one; false: another one is, from which this was forked, and *out_pid
 * says which. */
bool lineage_claim(int *out_pid);

/* The one that claimed; true before. A load or two. */
bool lineage_is_mine(void);

#endif
