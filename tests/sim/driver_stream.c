/* SPDX-License-Identifier: MIT */
/* Streams and events. All work is done when its call returns, so they only have to exist. */
#include <stdlib.h>

#include "driver_sim.h"

#define STREAM_EVENTS_SHARED 4095u /* one process's interprocess events: the next is refused */

enum { EVENT_INTERPROCESS = 4, EVENT_FLAGS = 7 };

struct cu_stream_opaque {
	struct cu_stream_opaque *next;
};

struct cu_event_opaque {
	struct cu_event_opaque *next;
	unsigned int flags;
};

static cu_stream streams;
static cu_event events;
static unsigned int events_shared;

/* 0, 1 and 2 are the default streams. Under the lock, like all below. */
static cu_stream *stream_link(cu_stream stream)
{
	cu_stream *link = &streams;

	while (*link && *link != stream)
		link = &(*link)->next;
	return *link ? link : NULL;
}

static cu_result stream_check(cu_stream stream)
{
	if ((uintptr_t)stream <= 2)
		return CU_OK;
	STATE_LOCKED;
	return stream_link(stream) ? CU_OK : CU_INVALID_HANDLE;
}

static cu_result stream_create(cu_stream *stream, unsigned int flags)
{
	if (!stream || flags > CU_STREAM_NONBLOCKING)
		return CU_INVALID_VALUE;
	cu_stream made = calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
	STATE_LOCKED;
	made->next = streams;
	streams = made;
	*stream = made;
	return CU_OK;
}

cu_result cuStreamCreate(cu_stream *stream, unsigned int flags)
{
	ANSWER(cuStreamCreate, NEED_CONTEXT, stream_create(stream, flags));
}

cu_result cuStreamSynchronize(cu_stream stream)
{
	ANSWER(cuStreamSynchronize, NEED_CONTEXT, stream_check(stream));
}

static cu_result stream_destroy(cu_stream stream)
{
	STATE_LOCKED;
	cu_stream *link = stream_link(stream);
	if (!link)
		return CU_INVALID_HANDLE;
	*link = stream->next;
	free(stream);
	return CU_OK;
}

cu_result cuStreamDestroy_v2(cu_stream stream)
{
	ANSWER(cuStreamDestroy_v2, NEED_CONTEXT, stream_destroy(stream));
}

cu_result cuStreamDestroy(cu_stream stream)
{
	ANSWER(cuStreamDestroy, NEED_CONTEXT, stream_destroy(stream));
}

static cu_result stream_capturing(cu_stream stream, cu_capture_status *status)
{
	cu_result result = stream_check(stream);

	if (!status)
		return CU_INVALID_VALUE;
	if (result == CU_OK)
		*status = (cu_capture_status)0;
	return result;
}

cu_result cuStreamIsCapturing(cu_stream stream, cu_capture_status *status)
{
	ANSWER(cuStreamIsCapturing, NEED_CONTEXT, stream_capturing(stream, status));
}

static cu_event *event_link(cu_event event)
{
	cu_event *link = &events;

	while (*link && *link != event)
		link = &(*link)->next;
	return *link ? link : NULL;
}

static cu_result event_check(cu_event event)
{
	STATE_LOCKED;
	return event && event_link(event) ? CU_OK : CU_INVALID_HANDLE;
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
	    shared && events_shared == STREAM_EVENTS_SHARED ? NULL : calloc(1, sizeof(*made));
	if (!made)
		return CU_OUT_OF_MEMORY;
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
	cu_result result = event_check(event);

	return result == CU_OK ? stream_check(stream) : result;
}

cu_result cuEventRecord(cu_event event, cu_stream stream)
{
	ANSWER(cuEventRecord, NEED_CONTEXT, event_record(event, stream));
}

cu_result cuEventQuery(cu_event event)
{
	ANSWER(cuEventQuery, NEED_CONTEXT, event_check(event));
}

cu_result cuEventSynchronize(cu_event event)
{
	ANSWER(cuEventSynchronize, NEED_CONTEXT, event_check(event));
}

static cu_result event_destroy(cu_event event)
{
	STATE_LOCKED;
	cu_event *link = event ? event_link(event) : NULL;
	if (!link)
		return CU_INVALID_HANDLE;
	*link = event->next;
	if (event->flags & EVENT_INTERPROCESS)
		events_shared--;
	free(event);
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
