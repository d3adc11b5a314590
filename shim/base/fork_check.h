/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_FORK_CHECK_H
#define GPUSHARE_SHIM_FORK_CHECK_H
/* Distinguishes the process that created something from its forked children, without a system
 * call. */
#include <stdbool.h>

/* This process's number, never 0. A forked child's number differs from those of all its
 * ancestors. */
unsigned int fork_check_number(void);

/* Record this process as the one that fork_check_is_mine() asks about. False: an ancestor was
 * recorded before; *out_pid is its pid. */
bool fork_check_claim(int *out_pid);

/* Is this the process that fork_check_claim() recorded? Also true if no process was recorded. Costs
 * a few loads. */
bool fork_check_is_mine(void);

#endif
