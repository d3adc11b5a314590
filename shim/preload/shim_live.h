/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LIVE_H
#define GPUSHARE_SHIM_LIVE_H
/* The pointers of this process that are not plain driver memory: named ones, and attached ones. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/buffer/resync.h"
#include "gpushare.h"
#include "protocol.h"
#include "rules.h"
#include "cuda/vmm.h"

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
	bool stream_ordered; /* the program asked for stream-ordered memory */
	unsigned int pool;   /* of that, attached memory too; pools_number(), 0: none */
	bool unified;	     /* LIVE_VMM, LIVE_OWN_VMM: the host's memory, of vmm_host.h */
	bool managed;	     /* of those: the program asked for managed memory */
	uint32_t mode;	     /* as the rule says, else the record; 0: nothing */
	char group[RULES_GROUP_MAX + 1];
	uint32_t flags, ttl_s; /* as the rule says; LIVE_VMM, LIVE_OPENED: as the record does */
	struct vmm_mapping
	    mapping; /* of what is mapped; LIVE_IPC: what cuIpcOpenMemHandle gave, no size */
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* LIVE_IPC: the owner's */
	uint64_t whole, address; /* of what is attached: the buffer's size, its owner's pointer, its
				    GPU; flags and ttl_s are its record's */
	uint8_t uuid[GPUSHARE_UUID_SIZE];
	uint64_t generation;  /* 0 of what has a name: see live_is_unsettled() */
	unsigned int reading; /* resync_readings() of when it was on the table, or was shared or
				 attached */
	char name[GPUSHARE_NAME_MAX + 1]; /* "": not shared after all */
};

static inline bool live_is_mapped(const struct live *entry)
{
	return entry->kind == LIVE_VMM || entry->kind == LIVE_OPENED || entry->kind == LIVE_OWN_VMM;
}

static inline bool live_is_own(const struct live *entry)
{
	return entry->kind == LIVE_OWN || entry->kind == LIVE_OWN_VMM;
}

/* Its name was asked for and not answered: it may stand, and is asked for again when the registry is told of
 * all. */
static inline bool live_is_unsettled(const struct live *entry)
{
	return entry->name[0] && !entry->generation;
}

/* Copies. False: out of memory. The same buffer opened at the same address again is counted, and
 * one memory opened by two names is there twice; any other entry that the address had is replaced. */
bool live_add(const struct live *entry);

/* Is there any entry? One atomic load. */
bool live_any(void);

/* Could `pointer` have one? One atomic load; no lock. */
#define LIVE_FILTER_BITS 10
#define LIVE_FILTER_SIZE (1U << LIVE_FILTER_BITS)
extern atomic_uint live_filter[LIVE_FILTER_SIZE]; /* entries by a hash of their pointers */

/* The driver hands out steps of 512 bytes. */
static inline atomic_uint *live_filter_of(uint64_t pointer)
{
	return &live_filter[(pointer >> 9) * UINT64_C(0x9e3779b97f4a7c15) >>
			    (64 - LIVE_FILTER_BITS)];
}

static inline bool live_maybe(uint64_t pointer)
{
	return atomic_load_explicit(live_filter_of(pointer), memory_order_acquire) != 0;
}

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

/* Bytes that the program has of that pool, by its number. */
uint64_t live_pooled(unsigned int pool);

/* What the registry is told of. resync_add() all entries that have a name; false: not now. Count in how often
 * out_hold->generation is attached, by all its entries, and note its name. */
extern struct resync live_resync;
bool live_list(struct resync *resync);
bool live_list_one(struct resync *resync, const struct live *entry, uint64_t handle);
void live_count(gpushare_Hold *out_hold);
void live_count_one(const struct live *entry, unsigned int count, gpushare_Hold *out_hold);

/* By pointer and generation: a copy; another generation for it, or for 0 no name. */
bool live_get(uint64_t pointer, uint64_t generation, struct live *out_entry);
bool live_rename(uint64_t pointer, uint64_t generation, uint64_t to);

#endif
