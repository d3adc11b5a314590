/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_EVENT_H
#define GPUSHARE_SHIM_API_EVENT_H
/*
 * Named events: buffers of no bytes to session, registry and resyncing, BUFFER_ALLOCATED where they
 * were created and BUFFER_ATTACHED where they were opened; `pointer` is the CUevent, `handle` its
 * 64 bytes.
 */
#include "api_session.h"

struct gpushare_event {
	struct gpushare_buffer named;
};

static inline cu_event event_of(const struct gpushare_buffer *buffer)
{
	return (cu_event)(uintptr_t)buffer->pointer;
}

/* What can be said of the arguments, and whether the driver has such calls: it, or NULL. */
int event_check(const struct gpushare_session *session, const char *name,
		struct gpushare_event *const *out_event);
const struct driver *event_driver(struct gpushare_session *session, const char *name);
/* The current context where it is of that device, else its primary one, which is kept then. */
int event_context(struct gpushare_session *session, int device, cu_context *out_context,
		  bool *out_kept);

/* api_event_stream.c: may it be recorded on that stream; waited for by that stream? */
int event_check_stream(const struct gpushare_buffer *buffer, cu_stream stream, bool waits);

/* The thread may do what a stream capture forbids, until the scope ends. */
struct event_relaxed {
	const struct driver *driver; /* NULL: nothing was changed */
	cu_capture_mode before;
};
struct event_relaxed event_relax(const struct driver *driver);
void event_relaxed_end(struct event_relaxed *scope);
#define _event_relaxed_ __attribute__((cleanup(event_relaxed_end), unused))

/* api_event_table.c: the CUevents of this process that sessions use, each destroyed with its last
 * user. */
int event_add(const struct driver *driver, cu_event event, cu_context context, bool kept);
/* Another one uses what was created here: false where it was not, by this copy of the library. */
bool event_use(uint64_t event, cu_context *out_context, bool *out_kept);
int event_drop(uint64_t event);

#endif
