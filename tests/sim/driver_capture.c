/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: which calls are allowed while a stream's work is recorded instead of run. The
 * rules are those of CUDA's documentation of cuThreadExchangeStreamCaptureMode. A graph here holds
 * addresses, and the operations of driver_work.h in a single sequence.
 */

#include <utlist.h>

#include "driver_work.h"

enum { CAPTURE_STATUS_ACTIVE = 1, CAPTURE_STATUS_INVALIDATED = 2 };

struct room { /* an address range to which a launched graph would give memory */
	struct room *next;
	uint64_t start, size;
};

struct cu_graph_opaque {
	struct cu_graph_opaque *next;
	struct room *rooms;
	struct ops ops;
};

struct capture {
	struct capture *next;
	cu_context context;
	int mode;
	pthread_t thread;
	bool invalid;
	struct room *rooms;
	struct ops ops;
};

static struct capture *captures;
static cu_graph graphs;
static _Thread_local int capture_mode;

static bool capture_mine(const struct capture *capture)
{
	return pthread_equal(capture->thread, pthread_self());
}

static bool capture_forbids(const struct capture *capture)
{
	if (capture_mode == CU_CAPTURE_RELAXED)
		return false;
	if (capture_mine(capture))
		return capture->mode != CU_CAPTURE_RELAXED;
	return capture_mode == CU_CAPTURE_GLOBAL && capture->mode == CU_CAPTURE_GLOBAL;
}

/* For potentially unsafe calls. Captures that forbid the call are invalidated, and the call must
 * fail with the returned error. */
cu_result capture_permits(void)
{
	cu_result result = CU_OK;

	STATE_LOCKED;
	for (struct capture *capture = captures; capture; capture = capture->next) {
		if (!capture_forbids(capture))
			continue;
		capture->invalid = true;
		result = CU_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* For calls that concern all of a context's streams: any capture in the context is invalidated,
 * whatever its mode. */
cu_result capture_conflict(cu_context context)
{
	cu_result result = CU_OK;

	STATE_LOCKED;
	for (struct capture *capture = captures; capture; capture = capture->next) {
		if (capture->context != context)
			continue;
		capture->invalid = true;
		result = CU_STREAM_CAPTURE_UNSUPPORTED;
	}
	return result;
}

/* For calls that are not allowed on a captured stream: the capture is invalidated. Under the
 * lock. */
cu_result capture_spoil(cu_stream stream)
{
	if (!stream->capture)
		return CU_OK;
	stream->capture->invalid = true;
	return CU_STREAM_CAPTURE_UNSUPPORTED;
}

/* For a dependency on work outside the capture: the capture is invalidated. Under the lock. */
cu_result capture_cross(struct capture *capture)
{
	capture->invalid = true;
	return (cu_result)STREAM_CAPTURE_ISOLATION;
}

static void capture_empty(struct room *room)
{
	while (room) {
		struct room *next = room->next;
		munmap((void *)(uintptr_t)room->start, room->size);
		free(room);
		room = next;
	}
}

/* Under the lock, like the next two functions. */
void capture_discard(struct capture *capture)
{
	LL_DELETE(captures, capture);
	capture_empty(capture->rooms);
	ops_free(&capture->ops);
	free(capture);
}

cu_result capture_alloc(struct capture *capture, cu_deviceptr *pointer, uint64_t size)
{
	if (!pointer || !size)
		return CU_INVALID_VALUE;
	if (capture->invalid)
		return CU_STREAM_CAPTURE_INVALIDATED;
	if (size > state.capacity)
		return CU_OUT_OF_MEMORY;
	size = (size + SIM_BLOCK - 1) & ~(SIM_BLOCK - 1);
	struct room *room = malloc(sizeof(*room));
	void *address = room ? address_reserve(size, SIM_BLOCK, 0) : NULL;
	if (!address) {
		free(room);
		return CU_OUT_OF_MEMORY;
	}
	*room = (struct room){capture->rooms, (uintptr_t)address, size};
	capture->rooms = room;
	*pointer = room->start;
	return CU_OK;
}

/* Only memory allocated in the same capture can be freed in it. */
cu_result capture_free(struct capture *capture, cu_deviceptr pointer)
{
	if (capture->invalid)
		return CU_STREAM_CAPTURE_INVALIDATED;
	for (const struct room *room = capture->rooms; room; room = room->next) {
		if (room->start == pointer)
			return CU_OK;
	}
	return CU_INVALID_VALUE;
}

/* Drop the copy of the source: a graph reads the program's memory when it is launched. */
bool capture_note(struct capture *capture, const struct op *op)
{
	struct op noted = *op;

	free(noted.bytes);
	noted.bytes = NULL;
	return ops_add(&capture->ops, &noted);
}

struct ops *graph_ops(cu_graph graph)
{
	cu_graph found = graphs;

	while (found && found != graph)
		found = found->next;
	return found ? &found->ops : NULL;
}

CALL(cuStreamBeginCapture_v2, NEED_CONTEXT, (cu_stream stream, cu_capture_mode mode),
     (stream, mode))
{
	if ((int)mode < CU_CAPTURE_GLOBAL || (int)mode > CU_CAPTURE_RELAXED)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	if (!found->own && !found->context) /* the legacy stream */
		return stream_captures(found) ? (cu_result)STREAM_CAPTURE_IMPLICIT
					      : CU_STREAM_CAPTURE_UNSUPPORTED;
	if (found->capture)
		return (cu_result)STREAM_ILLEGAL_STATE;
	struct capture *capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CU_OUT_OF_MEMORY;
	*capture = (struct capture){
	    .next = captures,
	    .context = context_current(),
	    .mode = (int)mode,
	    .thread = pthread_self(),
	};
	captures = capture;
	found->capture = capture;
	return CU_OK;
}

CALL(cuStreamEndCapture, NEED_CONTEXT, (cu_stream stream, cu_graph *graph), (stream, graph))
{
	if (!graph)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	struct capture *capture = found ? found->capture : NULL;
	if (!capture)
		return (cu_result)(found ? STREAM_ILLEGAL_STATE : CU_INVALID_HANDLE);
	if (capture->mode != CU_CAPTURE_RELAXED && !capture_mine(capture))
		return (cu_result)STREAM_CAPTURE_WRONG_THREAD;
	cu_graph made = capture->invalid ? NULL : calloc(1, sizeof(*made));
	cu_result result = capture->invalid ? CU_STREAM_CAPTURE_INVALIDATED
			   : made	    ? CU_OK
					    : CU_OUT_OF_MEMORY;
	if (made) {
		made->rooms = capture->rooms;
		capture->rooms = NULL;
		made->ops = capture->ops;
		capture->ops = (struct ops){.list = NULL};
		made->next = graphs;
		graphs = made;
	}
	capture_discard(capture);
	found->capture = NULL;
	*graph = made;
	return result;
}

CALL(cuStreamIsCapturing, NEED_CONTEXT, (cu_stream stream, cu_capture_status *status),
     (stream, status))
{
	int answer = CU_CAPTURE_NONE;

	if (!status)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	if (!found->own && !found->context && stream_captures(found))
		return (cu_result)STREAM_CAPTURE_IMPLICIT;
	if (found->capture)
		answer =
		    found->capture->invalid ? CAPTURE_STATUS_INVALIDATED : CAPTURE_STATUS_ACTIVE;
	*status = (cu_capture_status)answer;
	return CU_OK;
}

CALL(cuThreadExchangeStreamCaptureMode, NEED_INIT, (cu_capture_mode * mode), (mode))
{
	if (!mode || (int)*mode < CU_CAPTURE_GLOBAL || (int)*mode > CU_CAPTURE_RELAXED)
		return CU_INVALID_VALUE;
	int before = capture_mode;
	capture_mode = (int)*mode;
	*mode = (cu_capture_mode)before;
	return CU_OK;
}

CALL(cuGraphDestroy, NEED_INIT, (cu_graph graph), (graph))
{
	STATE_LOCKED;
	if (!graph_ops(graph))
		return CU_INVALID_VALUE;
	LL_DELETE(graphs, graph);
	capture_empty(graph->rooms);
	ops_free(&graph->ops);
	free(graph);
	return CU_OK;
}
