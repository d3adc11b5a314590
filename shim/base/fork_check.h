/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_FORK_CHECK_H
#define GPUSHARE_SHIM_FORK_CHECK_H
/* Is this the process that made something, or one that was forked from it? Without a system call. */
#include <stdbool.h>

/* This process's number, never 0. A forked child has another one than all that it was forked from. */
unsigned int fork_check_number(void);

/* From now on this process is the one; false: another one is, from which this was forked, and *out_pid
 * says which. */
bool fork_check_claim(int *out_pid);

/* The one that claimed; true before. A few loads. */
bool fork_check_is_mine(void);

#endif
