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
	LIVE_OWN,    /* the program's memory, made by cuMemAlloc */
	LIVE_IPC,    /* another process's, opened by cuIpcOpenMemHandle */
	LIVE_VMM,    /* another process's, mapped from a descriptor */
	LIVE_OPENED, /* another process's, mapped because the program opened an IPC handle of ours */
	LIVE_OWN_VMM, /* the program's too, mapped in place of what it asked for */
};

struct live {
	uint64_t pointer; /* as the program has it */
	uint64_t size;	  /* as the program asked */
	enum live_kind kind;
	unsigned int count; /* LIVE_IPC, LIVE_OPENED: how often it was attached, opened; others 1 */
	cu_context context; /* it ends with this one */
	cu_device device;   /* LIVE_OWN, LIVE_OWN_VMM, as the next three */
	bool stream_ordered;   /* the program asked for stream-ordered memory */
	bool unified;	       /* LIVE_VMM, LIVE_OWN_VMM: the host's memory, of vmm_host.h */
	bool managed;	       /* of those: the program asked for managed memory */
	uint32_t flags, ttl_s; /* as the rule says */
	struct vmm_mapping
	    mapping; /* of what is mapped; LIVE_IPC: what cuIpcOpenMemHandle gave, no size */
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* LIVE_IPC: the owner's */
	uint64_t generation;
	char name[GPUSHARE_NAME_MAX + 1]; /* "": not shared after all */
};

static inline bool live_is_mapped(const struct live *entry)
{
	return entry->kind == LIVE_VMM || entry->kind == LIVE_OPENED || entry->kind == LIVE_OWN_VMM;
}

/* Copies. False: out of memory. The same buffer opened at the same address again is counted, and
 * one memory opened by two names is there twice; any other entry that the address had is replaced. */
bool live_add(const struct live *entry);

/* Is there any entry? One atomic load. */
bool live_any(void);

/* Could `pointer` have one? One atomic load; no lock. */
bool live_maybe(uint64_t pointer);

/* Is there any managed one? One atomic load. And a copy of the one that has `size` bytes there. */
bool live_any_managed(void);
bool live_find_managed(uint64_t pointer, uint64_t size, struct live *out_entry);

/* Take the entry of `pointer` out, or count it down: `out_entry->count` is what is left then.
 * LIVE_OPENED is left alone: cuMemFree does not end it. */
bool live_take(uint64_t pointer, struct live *out_entry);

/* The same for LIVE_OPENED and no other; and count one up, by what it is. */
bool live_take_opened(uint64_t pointer, struct live *out_entry);
bool live_open_again(uint64_t generation, struct live *out_entry);

/* Take any entry of that context out, LIVE_OWN or another, whatever its count. */
bool live_take_of(cu_context context, bool own, struct live *out_entry);

/* A copy of any LIVE_OWN_VMM entry of that context that has a name; it has none from now on. */
bool live_unname_of(cu_context context, struct live *out_entry);

/* A copy of the entry that `pointer` belongs to, in the memory that begins at `base` for the driver. */
bool live_find(uint64_t base, uint64_t pointer, struct live *out_entry);

#endif
