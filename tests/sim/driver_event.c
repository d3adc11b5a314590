/* SPDX-License-Identifier: MIT */
/* Events: done when what their stream had to wait for has come. */
#include <stdlib.h>

#include "driver_stream.h"

#define EVENT_SHARED_MAX 4095u /* one process's interprocess events: the next is refused */

enum { EVENT_INTERPROCESS = 4, EVENT_FLAGS = 7 };

struct cu_event_opaque {
	struct cu_event_opaque *next;
	cu_context context;
	unsigned int flags;
	bool captured; /* last recorded in a capture */
	struct wait *after;
};

static cu_event events;
static unsigned int events_shared;

/* Under the lock. */
static cu_event event_find(cu_event event)
{
	cu_event found = events;

	while (found && found != event)
		found = found->next;
	return found;
}

/* An interprocess event may not keep time. */
static cu_result event_create(cu_event *event, unsigned int flags)
{
	bool shared = flags & EVENT_INTERPROCESS;

	if (!event || (flags & ~(unsigned int)EVENT_FLAGS) ||
	    (shared && !(flags & CU_EVENT_NO_TIMING)))
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_event made =
	    shared && events_shared == EVENT_SHARED_MAX ? NULL : calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	made->context = context_current();
	made->flags = flags;
	made->next = events;
	events = made;
	events_shared += shared;
	*event = made;
	return CU_OK;
}

cu_result cuEventCreate(cu_event *event, unsigned int flags)
{
	ANSWER(cuEventCreate, NEED_CONTEXT, event_create(event, flags));
}

static cu_result event_record(cu_event event, cu_stream stream)
{
	STATE_LOCKED;
	cu_event found = event_find(event);
	cu_stream its = found ? stream_find(stream) : NULL;
	if (!its)
		return CU_INVALID_HANDLE;
	wait_look();
	wait_drop(found->after);
	found->captured = its->capture != NULL;
	found->after = found->captured ? NULL : stream_tail(its);
	return CU_OK;
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
	ANSWER(cuEventRecord, NEED_CONTEXT, event_record(event, stream));
}

static cu_result event_query(cu_event event)
{
	STATE_LOCKED;
	const struct cu_event_opaque *found = event_find(event);
	if (!found)
		return CU_INVALID_HANDLE;
	if (found->captured)
		return (cu_result)STREAM_CAPTURED_EVENT;
	wait_look();
	return wait_over(found->after) ? CU_OK : CU_NOT_READY;
}

cu_result cuEventQuery(cu_event event)
{
	ANSWER(cuEventQuery, NEED_NO_CAPTURE, event_query(event));
}

static cu_result event_synchronize(cu_event event)
{
	state_lock();
	cu_event found = event_find(event);
	bool captured = found && found->captured;
	struct wait *after = found ? wait_hold(found->after) : NULL;
	pthread_mutex_unlock(&state.lock);
	if (!found)
		return CU_INVALID_HANDLE;
	wait_for(after);
	return captured ? (cu_result)STREAM_CAPTURED_EVENT : CU_OK;
}

cu_result cuEventSynchronize(cu_event event)
{
	ANSWER(cuEventSynchronize, NEED_CONTEXT, event_synchronize(event));
}

static void event_remove(cu_event event)
{
	cu_event *link = &events;

	while (*link != event)
		link = &(*link)->next;
	*link = event->next;
	if (event->flags & EVENT_INTERPROCESS)
		events_shared--;
	wait_drop(event->after);
	free(event);
}

static cu_result event_destroy(cu_event event)
{
	STATE_LOCKED;
	if (!event_find(event))
		return CU_INVALID_HANDLE;
	event_remove(event);
	return CU_OK;
}

cu_result cuEventDestroy_v2(cu_event event)
{
	ANSWER(cuEventDestroy_v2, NEED_CONTEXT, event_destroy(event));
}

cu_result cuEventDestroy(cu_event event)
{
	ANSWER(cuEventDestroy, NEED_CONTEXT, event_destroy(event));
}

void event_end(cu_context context)
{
	cu_event next;

	for (cu_event event = events; event; event = next) {
		next = event->next;
		if (event->context == context)
			event_remove(event);
	}
}
