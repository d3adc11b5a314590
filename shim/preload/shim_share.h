/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SHARE_H
#define GPUSHARE_SHIM_SHARE_H
/* GPUSHARE_NAME: memory that a rule took is entered in the registry, and leaves it again. */
#include "gpushare.h"
#include "shim_claim.h"
#include "shim_live.h"

/*
 * Enter cuMemAlloc memory of the program under `claim->match.name`. `size` is what the program asked
 * for. What can't be shared is logged; the memory is the program's all the same. False: there was no
 * memory to remember `size`, and whoever asks for it is told the allocation's. errno stays.
 */
bool share_pointer(const struct claim *claim, cu_deviceptr pointer, size_t size,
		   bool stream_ordered);

/* Enter mapped memory that stands in for the program's allocation. True: it is shared, or may be by a registry
 * that has not answered, and in the live table; false: neither, which is logged. */
bool share_mapping(const struct claim *claim, const struct vmm_mapping *mapping, size_t size,
		   bool stream_ordered);

/* Become the owner of what a program before this one left under the name, mapped where it was if it
 * can be. False: there is nothing of that size on that GPU, or it can't be had. */
bool share_adopted(const struct claim *claim, size_t size, bool stream_ordered,
		   cu_deviceptr *out_pointer);

/* What is about to be freed, or asked for a handle: where its name was not answered, now it is, or it has none. */
void share_settle(cu_deviceptr pointer);
/* The same, of an object by its handle, or of those that are mapped in there. */
void share_settle_object(cu_mem_handle handle);
void share_settle_mapped(cu_deviceptr pointer, size_t size);

/* The driver refused to free what was withdrawn already: it has its name again. */
void share_again(const struct driver *driver, struct live *entry);

/* It was taken off the live table and is there again, with the name that it never lost. */
void share_keep(const struct live *entry);

/* Enter cuMemCreate memory of the program's, exported as a descriptor. True: it is shared, or may be, as
 * `*out_object` says, which is not in the live table. */
bool share_object(const struct claim *claim, cu_mem_handle handle, size_t size,
		  struct live *out_object);

/* share_adopted() for a program that maps by itself. */
bool share_adopted_object(const struct claim *claim, struct live *out_object);

/* A name is withdrawn. Nothing is asked of the registry at exit. */
void share_end(const char *name, uint64_t generation);
/* An attachment is given back: on no list since `reading`. */
void share_left(const struct live *entry);
/* The same in a call of the program that may concern other memory: without a wait for the registry. False: it
 * can't be told now. */
void share_end_later(const char *name, uint64_t generation);
bool share_left_later(const struct live *entry);

/* A name is withdrawn. True: others have it attached, and the memory is to be held for them. */
bool share_end_attached(const char *name, uint64_t generation);

/* Log why a rule's allocation can't be shared. errno stays. */
void share_refuse(const struct claim *claim, const char *why);

#endif
