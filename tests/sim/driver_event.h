/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_SIM_DRIVER_EVENT_H
#define GPUSHARE_TESTS_SIM_DRIVER_EVENT_H
/* Shared by driver_event.c and driver_ipc_event.c. All under the lock. */
#include "driver_stream.h"

struct slot; /* an interprocess event, in memory that its owner and all openers map */

struct cu_event_opaque {
	struct cu_event_opaque *next;
	cu_context context;
	unsigned int flags;
	struct capture *captured; /* capture of its last record; only compared */
	struct wait *after;	  /* done when this is over; unused if interprocess */
	struct slot *slot;	  /* of an interprocess event */
	bool opened;		  /* another process owns it */
};

#pragma GCC visibility push(hidden)
/* driver_event.c */
cu_event event_find(cu_event event);
cu_event event_add(const struct cu_event_opaque *model); /* NULL: out of memory */

/* driver_ipc_event.c */
struct slot *slot_take(void); /* NULL: no free slot in this process, or no memory */
void slot_give(struct slot *slot);
/* Record the event: it is done once `after` is over. Take over the reference to `after`. False: out
 * of memory, and nothing was recorded. */
bool slot_record(struct slot *slot, struct wait *after);
bool slot_over(const struct slot *slot);
/* Return a wait for `first` and for the latest record. Take over the reference to `first`. NULL:
 * out of memory; the caller keeps the reference. */
struct wait *slot_wait(const struct slot *slot, struct wait *first);
#pragma GCC visibility pop

#endif
