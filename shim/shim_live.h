/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LIVE_H
#define GPUSHARE_SHIM_LIVE_H
/* The pointers of this process that are not plain driver memory: named ones, and attached ones. */
#include <stdbool.h>
#include <stdint.h>

#include "gpushare.h"
#include "protocol.h"
#include "vmm.h"

enum live_kind {
	LIVE_OWN, /* the program's memory, made by cuMemAlloc */
	LIVE_IPC, /* another process's, opened by cuIpcOpenMemHandle */
	LIVE_VMM, /* another process's, mapped from a descriptor */
};

struct live {
	uint64_t pointer; /* as the program has it */
	uint64_t size;	  /* as the program asked */
	enum live_kind kind;
	unsigned int count;  /* LIVE_IPC: how often it was attached; others 1 */
	cu_context context;  /* it ends with this one */
	cu_device device;    /* LIVE_OWN */
	bool stream_ordered; /* LIVE_OWN: the program asked for stream-ordered memory */
	struct vmm_mapping mapping; /* LIVE_VMM; LIVE_IPC: what cuIpcOpenMemHandle gave, no size */
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* LIVE_IPC: the owner's */
	uint64_t generation;
	char name[GPUSHARE_NAME_MAX + 1]; /* "": not shared after all */
};

/* Copies. False: out of memory. The same buffer opened at the same address again is counted, and
 * one memory opened by two names is there twice; any other entry that the address had is replaced. */
bool live_add(const struct live *entry);

/* Is there any entry? One atomic load. */
bool live_any(void);

/* Could `pointer` have one? One atomic load; no lock. */
bool live_maybe(uint64_t pointer);

/* Take the entry of `pointer` out, or count it down: `out_entry->count` is what is left then. */
bool live_take(uint64_t pointer, struct live *out_entry);

/* Take any entry of that context out, LIVE_OWN or another, whatever its count. */
bool live_take_of(cu_context context, bool own, struct live *out_entry);

/* A copy of the entry that `pointer` belongs to, in the memory that begins at `base` for the driver. */
bool live_find(uint64_t base, uint64_t pointer, struct live *out_entry);

#endif
