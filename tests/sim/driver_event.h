/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_EVENT_H
#define GPUSHARE_TESTS_SIM_DRIVER_EVENT_H
/* Between events and the part of them that other processes see. All under the lock. */
#include "driver_stream.h"

struct slot; /* an interprocess event, in memory that its owner and all who opened it map */

struct cu_event_opaque {
	struct cu_event_opaque *next;
	cu_context context;
	unsigned int flags;
	struct capture *captured; /* last recorded in that one; only compared */
	struct wait *after;	  /* what it is done after; not of an interprocess event */
	struct slot *slot;	  /* of an interprocess event */
	bool opened;		  /* it is another process's */
};

#pragma GCC visibility push(hidden)
/* driver_event.c */
cu_event event_find(cu_event event);
cu_event event_add(const struct cu_event_opaque *model); /* NULL: out of memory */

/* driver_ipc_event.c */
struct slot *slot_take(void); /* NULL: a process has no more of them */
void slot_give(struct slot *slot);
/* It is done after `after`, which it takes over; false: out of memory, and nothing was done. */
bool slot_record(struct slot *slot, struct wait *after);
bool slot_over(const struct slot *slot);
/* What comes after `first`, which it takes over, and after the latest record. NULL: out of memory. */
struct wait *slot_wait(const struct slot *slot, struct wait *first);
#pragma GCC visibility pop

#endif
