/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLIENT_HELD_H
#define GPUSHARE_SHIM_CLIENT_HELD_H
/*
 * Descriptors of imported memory. The driver does not export imported memory (INVALID_VALUE,
 * measured). So a descriptor is held if a registry may need it again or the CPU will map the
 * memory. The descriptors have high numbers, which a program rarely touches. A forked child has
 * none of them.
 */
#include <stdint.h>

/* Hold a duplicate of `fd`. 0: failed; then the memory can't be shared again with a registry that
 * has lost it. */
uint64_t held_keep(int fd);
/* A duplicate of the held descriptor, close-on-exec; the caller closes it. -1: there is none
 * (the program may have closed it, or it was dropped). */
int held_open(uint64_t held);
/* `held` may be 0. */
void held_drop(uint64_t held);

#endif
