/* SPDX-License-Identifier: MIT */
/* Events. An event is done once all that its stream had to wait for at the record is over. */

#include <utlist.h>

#include "driver_event.h"

enum { EVENT_FLAGS = CU_EVENT_WAITS_BLOCKING | CU_EVENT_NO_TIMING | CU_EVENT_SHARED };

static cu_event events;

cu_event event_find(cu_event event)
{
	cu_event found = events;

	while (found && found != event)
		found = found->next;
	return found;
}

cu_event event_add(const struct cu_event_opaque *model)
{
	cu_event made = malloc(sizeof(*made));

	if (!made)
		return NULL;
	*made = *model;
	made->next = events;
	events = made;
	return made;
}

/* As in CUDA, an interprocess event must be created without timing. */
CALL(cuEventCreate, NEED_CONTEXT, (cu_event * event, unsigned int flags), (event, flags))
{
	struct cu_event_opaque model = {.context = context_current(), .flags = flags};
	bool shared = flags & CU_EVENT_SHARED;

	if (!event || (flags & ~(unsigned int)EVENT_FLAGS) ||
	    (shared && !(flags & CU_EVENT_NO_TIMING)))
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	if (shared && !(model.slot = slot_take()))
		return CU_OUT_OF_MEMORY;
	cu_event made = event_add(&model);
	if (!made) {
		if (model.slot)
			slot_give(model.slot);
		return CU_OUT_OF_MEMORY;
	}
	*event = made;
	return CU_OK;
}

static bool event_is_elsewhere(const struct cu_event_opaque *event,
			       const struct cu_stream_opaque *its)
{
	return its->context && its->context != event->context;
}

/* A real driver crashes if an interprocess event is used with a stream of another context. */
static cu_result event_crash(const struct cu_event_opaque *event)
{
	if (event->slot)
		raise(SIGSEGV);
	return CU_INVALID_HANDLE;
}

CALL(cuEventRecord, NEED_CONTEXT, (cu_event event, cu_stream stream), (event, stream))
{
	STATE_LOCKED;
	cu_event found = event_find(event);
	cu_stream its = found ? stream_find(stream) : NULL;
	if (!its)
		return CU_INVALID_HANDLE;
	if (event_is_elsewhere(found, its))
		return event_crash(found);
	if (stream_use(its) != CU_OK)
		return (cu_result)STREAM_CAPTURE_IMPLICIT;
	wait_look();
	if (found->slot && its->capture)
		return CU_STREAM_CAPTURE_UNSUPPORTED; /* the capture stays valid */
	if (found->slot)
		return slot_record(found->slot, stream_tail(its)) ? CU_OK : CU_OUT_OF_MEMORY;
	found->captured = its->capture;
	wait_drop(found->after);
	found->after = its->capture ? NULL : stream_tail(its);
	return CU_OK;
}

static bool event_over(const struct cu_event_opaque *event)
{
	return event->slot ? slot_over(event->slot) : wait_over(event->after);
}

CALL(cuEventQuery, NEED_NO_CAPTURE, (cu_event event), (event))
{
	STATE_LOCKED;
	const struct cu_event_opaque *found = event_find(event);
	if (!found)
		return CU_INVALID_HANDLE;
	if (found->captured)
		return (cu_result)STREAM_CAPTURED_EVENT;
	wait_look();
	return event_over(found) ? CU_OK : CU_NOT_READY;
}

/* Return a wait for `first` and for the event. Take over the reference to `first`. */
static struct wait *event_wait(const struct cu_event_opaque *event, struct wait *first)
{
	return event->slot ? slot_wait(event->slot, first)
			   : wait_new(first, wait_hold(event->after), 0, 0);
}

CALL(cuEventSynchronize, NEED_CONTEXT, (cu_event event), (event))
{
	int cancelling = state_lock();
	cu_event found = event_find(event);
	bool captured = found && found->captured;
	struct wait *after = found && !captured ? event_wait(found, NULL) : NULL;
	state_unlock(&cancelling);
	if (!found)
		return CU_INVALID_HANDLE;
	if (captured)
		return (cu_result)STREAM_CAPTURED_EVENT;
	if (!after)
		return CU_OUT_OF_MEMORY;
	wait_for(after);
	pool_synced();
	return CU_OK;
}

/* A captured stream can wait only for an event that was recorded in the same capture. A stream
 * outside can't wait for such an event here; a real driver adds that stream to the capture. */
static cu_result event_in_capture(cu_event event, cu_stream stream)
{
	if (!event->captured)
		return capture_cross(stream->capture);
	return event->captured == stream->capture ? CU_OK : CU_STREAM_CAPTURE_UNSUPPORTED;
}

CALL(cuStreamWaitEvent, NEED_CONTEXT, (cu_stream stream, cu_event event, unsigned int flags),
     (stream, event, flags))
{
	if (flags)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_event found = event_find(event);
	cu_stream its = found ? stream_find(stream) : NULL;
	if (!its)
		return CU_INVALID_HANDLE;
	if (found->slot && event_is_elsewhere(found, its))
		return event_crash(found);
	if (found->slot && its->capture)
		return capture_spoil(its);
	if (stream_use(its) != CU_OK)
		return (cu_result)STREAM_CAPTURE_IMPLICIT;
	if (found->captured || its->capture)
		return event_in_capture(found, its);
	wait_look();
	if (event_over(found))
		return CU_OK;
	struct wait *tail = stream_tail(its);
	struct wait *wait = event_wait(found, tail);
	if (!wait) {
		wait_drop(tail);
		return CU_OUT_OF_MEMORY;
	}
	wait_drop(its->last);
	its->last = wait;
	return CU_OK;
}

static void event_remove(cu_event event)
{
	LL_DELETE(events, event);
	if (event->slot && !event->opened)
		slot_give(event->slot);
	wait_drop(event->after);
	free(event);
}

CALL(cuEventDestroy_v2, NEED_CONTEXT, (cu_event event), (event))
{
	STATE_LOCKED;
	if (!event_find(event))
		return CU_INVALID_HANDLE;
	event_remove(event);
	return CU_OK;
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
