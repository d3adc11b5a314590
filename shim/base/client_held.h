/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_HELD_H
#define GPUSHARE_SHIM_CLIENT_HELD_H
/*
 * Holds duplicated descriptors of stream-sync pages, and of imported memory
 * (cuMemImportFromShareableHandle), which the driver does not export again
 * (CUDA_ERROR_INVALID_VALUE, measured). A descriptor is held if a registry may need it again, or if
 * the CPU will map the memory. The duplicates have high numbers, which a program rarely touches. A
 * forked child has none of them.
 */
#include <stdint.h>

/* Hold a duplicate of `fd`. 0: failed; then the descriptor can't be sent to a restarted
 * registry. */
uint64_t held_keep(int fd);
/* A new duplicate of a descriptor kept here, close-on-exec; the caller closes it. -1: there is none
 * (held_drop() was called, or the program closed it). */
int held_open(uint64_t held);
/* `held` may be 0. */
void held_drop(uint64_t held);

#endif
