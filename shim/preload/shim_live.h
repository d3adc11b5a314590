/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LIVE_H
#define GPUSHARE_SHIM_LIVE_H
/*
 * The live table: memory of the program that the preload shared, tried to share, or attached. An
 * entry is found by the program's pointer. Memory that the program got from cuMemCreate and maps
 * itself is called an object here, and is found by its handle. An object lives until its last
 * handle is released and its last mapping is removed, whichever is later.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/buffer/resync.h"
#include "gpushare.h"
#include "protocol.h"
#include "rules.h"
#include "cuda/vmm.h"

enum live_kind {
	LIVE_OWN,     /* own memory of the program, made by cuMemAlloc */
	LIVE_IPC,     /* attached, opened by cuIpcOpenMemHandle */
	LIVE_VMM,     /* attached, mapped from a file descriptor */
	LIVE_OPENED,  /* attached: the program opened one of our IPC handles (shim_ipc.h) */
	LIVE_OWN_VMM, /* own mapped memory (shim_own.h), or an own object */
};

struct live {
	uint64_t pointer; /* the program's address; 0: an object, see mapping.handle */
	uint64_t size;	  /* the size that the program asked for */
	enum live_kind kind;
	unsigned int count;  /* LIVE_IPC: attachments; LIVE_OPENED: opens; others: 1 */
	cu_context context;  /* the entry ends when this context does */
	cu_device device;    /* of the allocation; 0 for LIVE_OPENED and attached objects */
	bool stream_ordered; /* own memory that the program asked for in stream order */
	cu_mem_pool pool;    /* the pool whose memory it replaces, own or attached; NULL: none */
	bool unified;	     /* LIVE_VMM, LIVE_OWN_VMM: host memory (see vmm.h) */
	bool managed;	     /* unified, and the program asked for managed memory */
	uint32_t mode; /* access, as in chmod: the rule's, else the registry's; 0: none is set */
	char group[RULES_GROUP_MAX + 1];
	uint32_t flags, ttl_s;	    /* from the rule; attached memory: from the record */
	struct vmm_mapping mapping; /* LIVE_IPC: only its pointer, from cuIpcOpenMemHandle */
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* IPC handle; LIVE_IPC: the owner's */
	uint64_t whole, address;	      /* attached memory: buffer size, owner's pointer */
	uint8_t uuid[GPUSHARE_UUID_SIZE];     /* attached memory: the owner's GPU */
	uint64_t generation;		      /* 0 with a name: see live_is_unsettled() */
	unsigned int
	    reading; /* resync_readings() at the share or attach; from its removal on, at that */
	char name[GPUSHARE_NAME_MAX + 1]; /* "": not shared */
};

static inline bool live_is_mapped(const struct live *entry)
{
	return entry->kind == LIVE_VMM || entry->kind == LIVE_OPENED || entry->kind == LIVE_OWN_VMM;
}

static inline bool live_is_object(const struct live *entry)
{
	return !entry->pointer;
}

static inline bool live_is_own(const struct live *entry)
{
	return entry->kind == LIVE_OWN || entry->kind == LIVE_OWN_VMM;
}

/* Did the registry not answer the share? Then it may have the name or not. After the next resync
 * the entry is shared again. */
static inline bool live_is_unsettled(const struct live *entry)
{
	return entry->name[0] && !entry->generation;
}

/* Add a copy of `entry`; an object gets one handle. False: out of memory, or the lock timed out. If
 * there is a LIVE_IPC entry with the same pointer and generation, its count is raised. Two LIVE_IPC
 * entries with different generations are both kept: one memory may have two names. Any other entry
 * with the same pointer or handle is replaced. errno stays unchanged. */
bool live_add(const struct live *entry);

/* Is there any entry with a pointer? Is there any object? One atomic load. */
bool live_any(void);
bool live_any_object(void);

/* A filter for live_maybe(): how many entries have a pointer with this hash. */
#define LIVE_FILTER_BITS 10
#define LIVE_FILTER_SIZE (1U << LIVE_FILTER_BITS)
extern atomic_uint live_filter[LIVE_FILTER_SIZE];

/* The driver aligns its memory to 512 bytes: the low 9 bits say nothing. */
static inline atomic_uint *live_filter_of(uint64_t pointer)
{
	return &live_filter[(pointer >> 9) * UINT64_C(0x9e3779b97f4a7c15) >>
			    (64 - LIVE_FILTER_BITS)];
}

/* Could `pointer` have an entry? One atomic load; no lock. */
static inline bool live_maybe(uint64_t pointer)
{
	return atomic_load_explicit(live_filter_of(pointer), memory_order_acquire) != 0;
}

/* Is there any managed entry? One atomic load. live_find_managed() copies the managed entry that
 * holds all `size` bytes at `pointer`. */
bool live_any_managed(void);
bool live_find_managed(uint64_t pointer, uint64_t size, struct live *out_entry);

/* Lower the count of `pointer`'s entry, and take the entry out at 0. *out_entry is a copy, with the
 * count that is left. `opened`: take only a LIVE_OPENED entry, otherwise only another kind, because
 * cuMemFree does not end what cuIpcOpenMemHandle has opened. */
bool live_take(uint64_t pointer, bool opened, struct live *out_entry);

/* Raise the count of the LIVE_OPENED entry with that generation, and copy it. */
bool live_open_again(uint64_t generation, struct live *out_entry);

/* Copy the entry that holds `pointer`. `base`: where the driver's allocation around it begins. */
bool live_find(uint64_t base, uint64_t pointer, struct live *out_entry);

/* live_pooled(): the bytes of all entries of that pool. live_forget_pool(): the pool is destroyed,
 * so no entry belongs to it any more; another pool may get the same handle. */
uint64_t live_pooled(cu_mem_pool pool);
void live_forget_pool(cu_mem_pool pool);

/* For a resync. live_list(): resync_add() every entry that has a name; false: that is not possible
 * now. live_count(): add to out_hold->count how often out_hold->generation is attached, and set
 * out_hold->name. The _one calls do the same for one entry, which need not be in the table. */
extern struct resync live_resync;
bool live_list(struct resync *resync);
bool live_list_one(struct resync *resync, const struct live *entry);
void live_count(gpushare_Hold *out_hold);
void live_count_one(const struct live *entry, unsigned int count, gpushare_Hold *out_hold);

/* Find a named entry by generation and key: a pointer, or the handle of an object. live_get()
 * copies it. If the program has released all handles of an object, live_get() sets mapping.pointer:
 * the memory can be exported by that address. While the last mapping of such an object is being
 * unmapped, live_get() doesn't find it. live_rename() sets the entry's generation to `to`; if `to`
 * is 0, it clears the entry's name instead. */
bool live_get(const struct resync_ref *ref, struct live *out_entry);
bool live_rename(const struct resync_ref *ref, uint64_t to);

/* A list of entries that are in no table any more. */
struct live_ended {
	struct live entry;
	struct live_ended *next;
};
/* Free a list of objects that have ended. */
void live_free_ended(struct live_ended *ended);

/* Take out all entries of that context, whatever their counts, except objects. `own`: the entries
 * of the program's own memory; otherwise the attachments. The caller frees each by free(). */
struct live_ended *live_take_of(cu_context context, bool own);

/* Record that an object has one handle more (`more` is 1) or one less (-1). Returns the object if
 * no handle and no mapping is left; NULL: it has not ended. The caller calls live_free_ended(). */
struct live_ended *live_count_handles(cu_mem_handle handle, int more);

/* Record that `handle` is mapped at `pointer` now. Does nothing if `handle` is no object's. errno
 * stays unchanged. */
void live_add_place(cu_deviceptr pointer, cu_mem_handle handle);
/* Call these before and after cuMemUnmap. live_take_places() takes the mappings of that range out
 * of the table, because their addresses may be reused as soon as the driver has unmapped them.
 * Their objects still count these mappings. `gone`: the driver has unmapped them. Then
 * live_settle_places() drops the mappings and returns the objects that ended. Otherwise the driver
 * has refused, as it does for a part of a mapping. Then live_settle_places() puts the mappings
 * back, and the next resync reports the objects that live_get() did not find meanwhile. */
struct live_places;
struct live_places *live_take_places(cu_deviceptr pointer, size_t size);
struct live_ended *live_settle_places(struct live_places *taken, bool gone);

#endif
