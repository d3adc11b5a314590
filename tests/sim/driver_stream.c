/* SPDX-License-Identifier: MIT */
/* Streams. Work is done before its call returns, unless it comes after a wait for a word in
 * memory. */

#include <utlist.h>

#include "driver_stream.h"

static struct cu_stream_opaque stream_legacy = {.blocking = true, .id = 1};
static unsigned long long stream_ids = 1;
static cu_stream streams;
static _Thread_local cu_stream stream_own;

static cu_stream stream_add(const struct cu_stream_opaque *model)
{
	cu_stream stream = malloc(sizeof(*stream));

	if (!stream)
		return NULL;
	*stream = *model;
	stream->id = ++stream_ids;
	stream->next = streams;
	streams = stream;
	return stream;
}

/* Never free a thread's default stream: its queued work may outlive the thread. */
static cu_stream stream_of_thread(void)
{
	static const struct cu_stream_opaque model = {.blocking = true, .own = true};

	if (!stream_own)
		stream_own = stream_add(&model);
	return stream_own;
}

cu_stream stream_find(cu_stream stream)
{
	if (!stream || stream == STREAM_LEGACY)
		return &stream_legacy;
	if (stream == STREAM_PER_THREAD)
		return stream_of_thread();
	cu_stream found = streams;
	while (found && (found != stream || found->own))
		found = found->next;
	return found;
}

/* Return a wait that ends after both, and take over the references. If memory runs out, drop
 * `second`. */
static struct wait *stream_join(struct wait *first, struct wait *second)
{
	struct wait *both;

	if (wait_over(second) || first == second || !(both = wait_new(first, second, 0, 0))) {
		wait_drop(second);
		return first;
	}
	return both;
}

static bool stream_shares_queue(cu_stream one, cu_stream other)
{
	return state.connections && one->id % (unsigned int)state.connections ==
					other->id % (unsigned int)state.connections;
}

/* Return, with a reference, a wait for all that new work on the stream comes after. This is the
 * stream's own last work and that of streams which share its queue. The legacy stream also comes
 * after all blocking streams, and each of these comes after the legacy stream. */
struct wait *stream_tail(cu_stream stream)
{
	struct wait *tail = wait_hold(stream->last);

	if (stream->blocking && stream != &stream_legacy)
		tail = stream_join(tail, wait_hold(stream_legacy.last));
	for (cu_stream other = streams; other; other = other->next) {
		if (other != stream && ((other->blocking && stream == &stream_legacy) ||
					stream_shares_queue(stream, other)))
			tail = stream_join(tail, wait_hold(other->last));
	}
	return tail;
}

CALL(cuStreamCreate, NEED_CONTEXT, (cu_stream * stream, unsigned int flags), (stream, flags))
{
	struct cu_stream_opaque model = {
	    .context = context_current(),
	    .blocking = !flags,
	};

	if (!stream || flags > CU_STREAM_NONBLOCKING)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_stream made = stream_add(&model);
	if (!made)
		return CU_OUT_OF_MEMORY;
	*stream = made;
	return CU_OK;
}

static void stream_remove(cu_stream stream)
{
	LL_DELETE(streams, stream);
	pool_keep_of(stream);
	wait_drop(stream->last);
	if (stream->capture)
		capture_discard(stream->capture);
	free(stream);
}

/* Work that is queued in the stream still completes. */
CALL(cuStreamDestroy_v2, NEED_CONTEXT, (cu_stream stream), (stream))
{
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found || !found->context)
		return CU_INVALID_HANDLE;
	stream_remove(found);
	return CU_OK;
}

void stream_end(cu_context context)
{
	cu_stream next;

	for (cu_stream stream = streams; stream; stream = next) {
		next = stream->next;
		if (stream->context == context)
			stream_remove(stream);
	}
}

CALL(cuStreamSynchronize, NEED_NO_CAPTURE, (cu_stream stream), (stream))
{
	int cancelling = state_lock();
	cu_stream found = stream_find(stream);
	cu_result result = found ? capture_spoil(found) : CU_INVALID_HANDLE;
	struct wait *tail = result == CU_OK ? stream_tail(found) : NULL;
	state_unlock(&cancelling);
	if (result == CU_OK) {
		wait_for(tail);
		pool_synchronize(found);
	}
	return result;
}

CALL(cuStreamGetCtx, NEED_CONTEXT, (cu_stream stream, cu_context *context), (stream, context))
{
	if (!context)
		return CU_INVALID_VALUE;
	STATE_LOCKED;
	cu_stream found = stream_find(stream);
	if (!found)
		return CU_INVALID_HANDLE;
	*context = found->context ? found->context : context_current();
	return CU_OK;
}

/* Work on the legacy stream would come after work of blocking streams that is only captured. Refuse
 * it and invalidate these captures. */
cu_result stream_use(cu_stream stream)
{
	cu_result result = CU_OK;

	for (cu_stream other = streams; other && stream == &stream_legacy; other = other->next) {
		if (other->blocking && capture_spoil(other) != CU_OK)
			result = (cu_result)STREAM_CAPTURE_IMPLICIT;
	}
	return result;
}

bool stream_captures(cu_stream except)
{
	for (cu_stream stream = streams; stream; stream = stream->next) {
		if (stream != except && stream->blocking && stream->capture)
			return true;
	}
	return false;
}
