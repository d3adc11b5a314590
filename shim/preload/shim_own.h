/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_OWN_H
#define GPUSHARE_SHIM_OWN_H
/*
 * A rule says keep, readonly or vmm: the allocation is cuMemCreate memory behind an ordinary-looking
 * pointer, or the memory that a program before this one has left under the name.
 */
#include "shim_claim.h"
#include "shim_live.h"

struct own {
	bool made;	/* the program has its memory, and it is named */
	bool shareable; /* else ordinary memory may have the name */
	char why[200];	/* what stood in the way; "": nothing, or it is said already */
};

/* True: *out_pointer is the program's. False: it gets ordinary memory, which own_settle() then is
 * told of if it could be made. errno, context and captures stay. */
bool own_make(const struct claim *claim, size_t size, bool stream_ordered,
	      cu_deviceptr *out_pointer, struct own *out);

/* Ordinary memory gets no name: there is no room for whole blocks of it. */
void own_leave(struct own *own);

/* Give ordinary memory its name as far as the rule lets it, and log what it is not.
 * False: as share_pointer(). */
bool own_settle(const struct claim *claim, const struct own *own, cu_deviceptr pointer, size_t size,
		bool stream_ordered);

/* Give it back. Work on it must have ended. To the program it is freed, whatever the driver says. */
void own_close(const struct driver *driver, const struct live *entry);

/* cuMemFree of it, with that one's answers. `entry` is off the live table; where it can't be freed it
 * is there again. */
cu_result own_free(const struct driver *driver, struct live *entry);

#endif
