/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_FORK_CHECK_H
#define GPUSHARE_SHIM_FORK_CHECK_H
/* Tells the process that made something from its forked children, without a system call. */
#include <stdbool.h>

/* This process's number, never 0. A forked child's number differs from those of all its
 * ancestors. */
unsigned int fork_check_number(void);

/* From then on this process is the one. False: an ancestor already claimed; *out_pid is its pid. */
bool fork_check_claim(int *out_pid);

/* Is this the process that claimed? True if none did. Costs a few loads. */
bool fork_check_is_mine(void);

#endif
