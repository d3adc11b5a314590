/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_OBJECTS_H
#define GPUSHARE_SHIM_OBJECTS_H
/*
 * cuMemCreate memory that the program maps by itself and that has a name: it stands from the create
 * until the last handle is released and the last mapping gone, whichever comes later. Objects are
 * known by handle, mappings by address. errno stays.
 */
#include "shim_live.h"

struct object {
	struct live entry; /* without a pointer; the handle is in its mapping */
	struct object *next;
};
struct places; /* mappings that are taken off */

/* Is there any, in this process? One atomic load. */
bool objects_concern(void);

/* A copy, held by one handle. False: out of memory. */
bool objects_add(const struct live *entry);

/* One handle less, or one more. What nothing holds any more is off the table: the caller's, to be
 * ended with objects_end(). */
struct object *objects_drop_handle(cu_mem_handle handle);
void objects_add_handle(cu_mem_handle handle);

void objects_add_place(cu_deviceptr pointer, cu_mem_handle handle);
/* Off the table, each still counted: the address may be another's as soon as the driver has been
 * asked. Then they are gone, or the driver refused, as it does a part of a mapping. */
struct places *objects_take_places(cu_deviceptr pointer, size_t size);
struct object *objects_settle_places(struct places *taken, bool gone);

/* Tell the registry, of the own ones or of those attached; and free them all. */
void objects_tell_ended(const struct object *ended, bool attached);
void objects_free(struct object *ended);

/* live_list(), live_count(), live_get() and live_rename() of these. Where the program has released its handles, the
 * entry's mapping has an address, by which the memory can be had. */
bool objects_list(struct resync *resync);
void objects_count(gpushare_Hold *out_hold);
bool objects_get(cu_mem_handle handle, uint64_t generation, struct live *out_entry);
/* objects_get() of what is mapped in there. */
bool objects_get_mapped(cu_deviceptr pointer, size_t size, uint64_t generation,
			struct live *out_entry);
bool objects_rename(cu_mem_handle handle, uint64_t generation, uint64_t to);

#endif
