/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_VMM_RANGE_H
#define GPUSHARE_SHIM_VMM_RANGE_H
/*
 * Addresses for memory that other processes may want at the same address. A driver gives every
 * process the same addresses in the same order, so an attacher usually finds the owner's address
 * taken. So range_pick() gives each owner a random address, in a range that programs rarely use.
 */
#include <stdint.h>

/* With this alignment the driver reserves the address that is asked for. Without an alignment, it
 * takes smaller reservations from its own pool and ignores that address (contract_vmm.c). */
#define RANGE_ALIGNMENT ((uint64_t)32 << 20)

/* An address to ask for, for `size` bytes; 0: anywhere. errno is unchanged. */
uint64_t range_pick(uint64_t size);
/* Call this if the driver refuses the picked address each time: from then on range_pick() returns 0
 * in this process. */
void range_give_up(void);

#endif
