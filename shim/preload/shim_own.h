/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_OWN_H
#define GPUSHARE_SHIM_OWN_H
/*
 * If a rule says keep, readonly, map, vmm or unified, the program gets mapped memory (cuMemCreate,
 * or a memfd) in place of the memory that it asked for. With adopt it may get the kept buffer that
 * an earlier program left under the name.
 */
#include "shim_claim.h"
#include "shim_live.h"

struct own {
	bool made;	/* the program has mapped memory, under the name */
	bool shareable; /* if not made: ordinary memory may get the name */
	char why[200];	/* why it was not made; "": no reason, or it is logged already */
};

/* True: *out_pointer is the program's memory. False: the caller makes ordinary memory. In either
 * case the caller calls own_settle() once the program has memory. errno, the current context and
 * stream captures stay unchanged. */
bool own_make(const struct claim *claim, cu_deviceptr *out_pointer, struct own *out);

/* Record that ordinary memory gets no name, because there is no room to round it up to whole
 * blocks. */
void own_leave(struct own *own);

/* If the memory is ordinary, log why it is not mapped memory, and share it if the rule allows that.
 * False: share_pointer() could not record the size that the program asked for. */
bool own_settle(const struct claim *claim, const struct own *own, cu_deviceptr pointer);

/* Unmap and release mapped memory. GPU work on it must have ended. A failure is only logged: to the
 * program the memory is freed. */
void own_close(const struct driver *driver, const struct live *entry);

/* cuMemFree of mapped memory, with the results that cuMemFree would have. The caller has taken
 * `entry` out of the live table; if it can't be freed, own_free() puts it back. */
cu_result own_free(const struct driver *driver, struct live *entry);

#endif
