/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_PROCESS_H
#define GPUSHARE_SHIM_PROCESS_H
/* Which process the shim works for, and whether that process is exiting. */
#include <stdbool.h>

/* The shim works for this process from now on. In a forked child, calls pass through until exec. */
void process_claim(void);

/* Is this the process that called process_claim()? Also true while no process has. A load or
 * two. */
bool process_is_mine(void);

/* Is exit() running? Then the registry notices the end by itself, and no call of ours may wait. */
bool process_is_ending(void);

#endif
