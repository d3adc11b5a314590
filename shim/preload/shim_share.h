/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SHARE_H
#define GPUSHARE_SHIM_SHARE_H
/* GPUSHARE_NAME: share memory under the name that a rule gives it, and withdraw it. */
#include "gpushare.h"
#include "shim_claim.h"
#include "shim_live.h"

/*
 * Share cuMemAlloc memory of the program under `claim->match.name`. If the memory can't be shared,
 * that is logged, and the program keeps it. False: there was no memory to record the size that the
 * program asked for, so queries return the rounded size. errno stays unchanged.
 */
bool share_pointer(const struct claim *claim, cu_deviceptr pointer);

/* Share mapped memory that replaces the program's allocation, or cuMemCreate memory of the program;
 * `mapping` has no pointer then. True: the memory is in the live table, and it is shared or, if the
 * registry has not answered, may be shared. False: neither; this is logged. Call it in a scope
 * (shim_scope.h). */
bool share_mapping(const struct claim *claim, const struct vmm_mapping *mapping);

/* Adopt the kept buffer that an earlier program left under the name, and map it at its old address
 * if that is possible. False: there is none of that size on that GPU, or it can't be adopted.
 * *out_memory is a pointer; for cuMemCreate it is a handle, and the program maps the memory
 * itself. */
bool share_adopted(const struct claim *claim, cu_deviceptr *out_memory);

/* Call this before memory is freed, or before an IPC handle for it is made. `key` is the memory's
 * pointer, or the handle of an object (shim_live.h). If the registry did not answer the memory's
 * share, this sends another request, before which a resync runs (link_settle()). After that the
 * entry has a generation, or no name. */
void share_settle(uint64_t key, bool object);

/* The driver refused to free memory whose name is withdrawn already: share and record it again. */
void share_again(const struct driver *driver, struct live *entry);

/* Withdraw a name. This and the next four calls do nothing at exit and in a forked child. */
void share_end(const char *name, uint64_t generation);
/* End one attachment. Its entry has been in no table since entry->reading. */
void share_left(const struct live *entry);
/* share_end() and share_left() without waiting for the registry: for calls of the program that may
 * have nothing to do with this memory, and so must not be delayed. share_left_later() returns false
 * if the registry can't be told now. */
void share_end_later(const char *name, uint64_t generation);
bool share_left_later(const struct live *entry);

/* Withdraw a name. True: others have the buffer attached, or may have; the memory must be held. */
bool share_end_attached(const char *name, uint64_t generation);

#endif
