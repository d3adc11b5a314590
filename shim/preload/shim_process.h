/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_PROCESS_H
#define GPUSHARE_SHIM_PROCESS_H
/* Which process the shim works for, and whether that process is on its way out. */
#include <stdbool.h>

/* From now on this process is the one; a child that it forks passes through until exec. */
void process_claim(void);

/* For the time when exit() begins, before process_is_ending() says so; one such call. */
void process_on_exit(void (*call)(void));

/* Is this the process that claimed? Anyone is, until one has. A load or two. */
bool process_is_mine(void);

/* exit() runs: the registry will notice the end by itself, and no call of ours may wait. */
bool process_is_ending(void);

#endif
