/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_EVENT_H
#define GPUSHARE_SHIM_API_EVENT_H
/*
 * Named events. Session, registry and resync treat an event as a buffer of 0 bytes. Its kind is
 * BUFFER_ALLOCATED if this session created it, and BUFFER_ATTACHED if it opened it. `pointer` is
 * the CUevent, and `handle` its IPC handle of 64 bytes.
 */
#include "api_session.h"

struct gpushare_event {
	struct gpushare_buffer named;
};

static inline cu_event event_of(const struct gpushare_buffer *buffer)
{
	return (cu_event)(uintptr_t)buffer->pointer;
}

int event_check(const struct gpushare_session *session, const char *name,
		struct gpushare_event *const *out_event);
/* The current context if it is on that device. Else the device's primary context, which the session
 * retains: *out_kept is true. */
int event_context(struct gpushare_session *session, int device, cu_context *out_context,
		  bool *out_kept);

/* api_event_table.c: the CUevents of this process with their number of users. The last user's
 * event_drop() destroys the CUevent. */
int event_add(const struct driver *driver, cu_event event, cu_context context, bool kept);
/* Add a user to a CUevent in the table. False: this copy of the library did not create it. */
bool event_use(uint64_t event, cu_context *out_context, bool *out_kept);
int event_drop(uint64_t event);

#endif
