/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_HELD_H
#define GPUSHARE_SHIM_CLIENT_HELD_H
/*
 * Descriptors of memory that was imported: the driver exports such memory no more (INVALID_VALUE,
 * measured), so that what a registry may have to be given again, or the CPU is to map, is held. They
 * lie where a program hardly looks, and a forked child has none of them.
 */
#include <stdint.h>

/* Hold a duplicate. 0: can't be had; such memory can't be brought back. */
uint64_t held_keep(int fd);
/* A duplicate of what is held, close-on-exec, the caller's; -1: nothing (the program may have closed
 * it, or it was dropped). */
int held_open(uint64_t held);
/* 0 is allowed. */
void held_drop(uint64_t held);

#endif
