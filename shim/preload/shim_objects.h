/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_OBJECTS_H
#define GPUSHARE_SHIM_OBJECTS_H
/*
 * Objects: cuMemCreate memory that has a name and that the program maps by itself. An object lives
 * until its last handle is released and its last mapping is removed, whichever is later. The table
 * finds objects by handle, mappings by address. errno stays.
 */
#include "shim_live.h"

struct object {
	struct live entry; /* its pointer is 0; mapping.handle is the handle */
	struct object *next;
};
struct places; /* mappings that were taken out of the table */

/* Does this process have any object? False in a forked child. One atomic load if there is none. */
bool objects_concern(void);

/* Add a copy of `entry`, with one handle. False: out of memory, or the lock timed out. */
bool objects_add(const struct live *entry);

/* Count one handle less, or one more. objects_drop_handle() returns the object if no handle and no
 * mapping is left: it is out of the table, and the caller passes it to objects_tell_ended() and
 * objects_free(). NULL: none ended. */
struct object *objects_drop_handle(cu_mem_handle handle);
void objects_add_handle(cu_mem_handle handle);

/* `handle` is mapped at `pointer` now. Ignored if `handle` is no object's. */
void objects_add_place(cu_deviceptr pointer, cu_mem_handle handle);
/* Around cuMemUnmap. objects_take_places() takes the mappings of that range out of the table first,
 * as their addresses may be reused as soon as the driver has unmapped them; their objects still
 * count them. objects_settle_places() drops them if `gone`, and returns the objects that ended. If
 * the driver refused, as it does for a part of a mapping, it puts them back. */
struct places *objects_take_places(cu_deviceptr pointer, size_t size);
struct object *objects_settle_places(struct places *taken, bool gone);

/* Tell the registry that the attached objects of the list have ended, or that the own ones have.
 * objects_free() frees the whole list. */
void objects_tell_ended(const struct object *ended, bool attached);
void objects_free(struct object *ended);

/* live_list(), live_count(), live_get() and live_rename() for objects. If the program has released
 * all handles, objects_get() sets mapping.pointer: the memory can be exported by that address. */
bool objects_list(struct resync *resync);
void objects_count(gpushare_Hold *out_hold);
bool objects_get(cu_mem_handle handle, uint64_t generation, struct live *out_entry);
/* objects_get() for an object that is mapped in that range. */
bool objects_get_mapped(cu_deviceptr pointer, size_t size, uint64_t generation,
			struct live *out_entry);
bool objects_rename(cu_mem_handle handle, uint64_t generation, uint64_t to);

#endif
