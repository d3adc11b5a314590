/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LIVE_H
#define GPUSHARE_SHIM_LIVE_H
/* The pointers of this process that stand for a named buffer: its own, and attached ones. */
#include <stdbool.h>
#include <stdint.h>

#include "gpushare.h"

struct live {
	uint64_t pointer; /* as the program has it */
	uint64_t mapping; /* attached: what cuIpcOpenMemHandle gave; 0: our own buffer */
	uint64_t generation;
	char name[GPUSHARE_NAME_MAX + 1];
};

/* Copies. False: out of memory. An entry that the address had before is replaced. */
bool live_add(const struct live *entry);

/* Is there any entry? One atomic load. */
bool live_any(void);

/* Take the entry of `pointer` out. */
bool live_take(uint64_t pointer, struct live *out_entry);

#endif
