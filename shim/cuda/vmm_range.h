/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_RANGE_H
#define GPUSHARE_SHIM_VMM_RANGE_H
/*
 * Addresses for memory that other processes may want at the same ones. A driver gives every process
 * the same addresses in the same order, so that the owner's is taken by the time that it is asked
 * for. Here each owner takes one at random, in a range that nobody else uses.
 */
#include <stdint.h>

/* Reserved with this alignment, an address that is asked for is given. Without one, the driver takes
 * what is smaller from a pool of its own, and the address counts for nothing (contract_vmm.c). */
#define RANGE_ALIGNMENT ((uint64_t)32 << 20)

/* Where to ask for `size` bytes; 0: anywhere. errno stays. */
uint64_t range_pick(uint64_t size);
/* The driver gave other addresses each time: none is picked in this process any more. */
void range_give_up(void);

#endif
