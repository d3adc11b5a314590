/* SPDX-License-Identifier: MIT */
/*
 * The order of a buffer on GPUs without 64-bit stream memory operations. A publication is one IPC
 * event, recorded again each time, and a host function behind it that stores the number; a consumer's
 * CPU waits for either. No stream of another process does: where who recorded is killed before its GPU
 * comes there, the event is never done, and a stream that waits for it stands until its process ends
 * (tests/gpu/facts_killed.c, driver 580). Numbers that are released are stored by a host function too,
 * and reclaiming waits on the CPU.
 */
#include "api_order_stream.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_MS 1 /* an event wakes nobody */

/* What a host function stores. */
struct stored {
	struct ordering *ordering;
	uint32_t slot;	 /* a consumer's, from 1 on; 0: it is published */
	uint64_t number; /* 0: given there */
};

int order_event_open(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	if (!ordering->driver->cuIpcGetEventHandle || !ordering->driver->cuIpcOpenEventHandle ||
	    !ordering->driver->cuEventQuery || !ordering->driver->cuStreamWaitEvent ||
	    !ordering->driver->cuLaunchHostFunc)
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "the CUDA driver has neither stream memory operations nor IPC "
		    "events and host functions, so no stream orders '%s'; use the calls "
		    "that end in _host",
		    ordering->name);
	ordering->context = buffer->context;
	ordering->probe = view_probe(ordering->driver);
	view_add(ordering);
	atomic_store(&ordering->means, GPUSHARE_ORDERING_EVENTS);
	return GPUSHARE_OK;
}

static void store_here(void *user)
{
	struct stored *stored = user;
	struct ordering *ordering = stored->ordering;

	if (stored->slot) {
		order_release(ordering->page, stored->slot - 1, stored->number);
	} else if (!stored->number) {
		stream_publish_late(ordering);
	} else {
		order_raise(&ordering->page->published, stored->number);
		order_wake_readers(ordering->page);
	}
	free(stored);
	atomic_fetch_sub(&ordering->pending, 1);
}

static int store_later(struct ordering *ordering, cu_stream stream, uint32_t slot, uint64_t number)
{
	struct stored *stored = malloc(sizeof(*stored));
	int status;

	if (!stored)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to order '%s'", ordering->name);
	*stored = (struct stored){ordering, slot, number};
	atomic_fetch_add(&ordering->pending, 1);
	status = stream_call(ordering, stream, store_here, stored);
	if (!status)
		return GPUSHARE_OK;
	atomic_fetch_sub(&ordering->pending, 1);
	free(stored);
	return status;
}

/* Made when it is first needed. No lock is held over the driver: another thread's one may stay. */
static int event_make(struct ordering *ordering, _Atomic(cu_event) *event, unsigned int flags)
{
	_order_scope_ struct order_scope scope = {.driver = NULL};
	cu_event made, none = NULL;
	cu_result result;
	int status;

	if (atomic_load(event))
		return GPUSHARE_OK;
	status = order_enter(ordering->driver, ordering->context, &scope);
	if (status)
		return status;
	result = ordering->driver->cuEventCreate(&made, CU_EVENT_NO_TIMING | flags);
	if (result != CU_OK)
		return stream_fail(ordering, result, "cuEventCreate");
	if (!atomic_compare_exchange_strong(event, &none, made))
		ordering->driver->cuEventDestroy_v2(made);
	return GPUSHARE_OK;
}

/* In the publisher's turn. What is there may be of this process too, and another event: it went, and came
 * back. The event is recorded by then, behind all that has a number: before, it would be taken for done. */
static int event_tell(struct ordering *ordering)
{
	struct order_page *page = ordering->page;
	cu_ipc_event_handle handle;
	cu_result result;
	uint32_t as;

	if (ordering->told_as && atomic_load(&page->has_event) == ordering->told_as)
		return GPUSHARE_OK;
	result = ordering->driver->cuIpcGetEventHandle(&handle, ordering->event);
	if (result != CU_OK)
		return stream_fail(ordering, result, "cuIpcGetEventHandle");
	do
		as = atomic_fetch_add(&page->told, 1) + 1;
	while (!as);
	atomic_store(&page->has_event, 0);
	memcpy(page->event, &handle, sizeof(page->event));
	atomic_store(&page->has_event, as);
	ordering->told_as = as;
	return GPUSHARE_OK;
}

/* What the stream does next comes after the event's last record, and the event after that. */
static int event_chain(const struct ordering *ordering, cu_stream stream, cu_event event)
{
	const char *call = "cuStreamWaitEvent";
	cu_result result = ordering->driver->cuStreamWaitEvent(stream, event, 0);

	if (result == CU_OK) {
		call = "cuEventRecord";
		result = ordering->driver->cuEventRecord(event, stream);
	}
	return result == CU_OK ? GPUSHARE_OK : stream_fail(ordering, result, call);
}

/* What was recorded by an attachment of this process that is another one, or was: the stream waits for that.
 * E_NOT_READY: it is somebody else's. */
static int event_follow(struct ordering *ordering, cu_stream stream, uint64_t number)
{
	struct ordering *other = view_borrow(ordering, number);
	cu_result result;

	if (!other)
		return GPUSHARE_E_NOT_READY;
	result = ordering->driver->cuStreamWaitEvent(stream, other->event, 0);
	view_return(other);
	return result == CU_OK ? GPUSHARE_OK : stream_fail(ordering, result, "cuStreamWaitEvent");
}

/* The next number comes behind all before: the own ones by the event. In the page's turn. */
static int publish_behind(struct ordering *ordering, cu_stream stream, uint64_t before)
{
	if (order_reaches(atomic_load(&ordering->page->published), before) ||
	    view_is_recorded(ordering, before))
		return GPUSHARE_OK;
	return event_follow(ordering, stream, before);
}

static void note_published(struct ordering *ordering, uint64_t number)
{
	uint32_t begun = atomic_load(&ordering->page->begun);

	if (atomic_load(&ordering->begun) != begun) {
		/* nobody sees a number of before as one of now */
		atomic_store(&ordering->publishing.last, 0);
		atomic_store(&ordering->begun, begun);
	}
	atomic_store(&ordering->page->next, number);
	atomic_store(&ordering->publishing.last, number);
	atomic_store(&ordering->page->recorded, number);
}

/* In the turn. E_NOT_READY: `out_before` is somebody else's, and not published. */
static int publish_next(struct ordering *ordering, cu_stream stream, uint64_t *out_before,
			uint64_t *out_sequence)
{
	struct order_page *page = ordering->page;
	bool late = atomic_load(&page->late);
	uint64_t before = atomic_load(late ? &page->late_after : &page->next);
	uint64_t number = late ? 0 : before + 1;
	int status = publish_behind(ordering, stream, before);

	*out_before = before;
	if (!status)
		status = event_chain(ordering, stream, ordering->event);
	if (!status)
		status = event_tell(ordering);
	if (!status)
		status = store_later(ordering, stream, 0, number);
	if (status)
		return status;
	if (!late)
		note_published(ordering, number);
	if (out_sequence)
		*out_sequence = number;
	return GPUSHARE_OK;
}

/* No stream of ours waits for what may never come: see above. */
static int wait_behind(struct ordering *ordering, uint64_t before)
{
	const struct order_stuck stuck = {stream_has_failed, ordering};
	struct order_page *page = ordering->page;
	int status =
	    order_wait_number(&page->published, &page->readers, before, ORDER_FOR_EVER, &stuck);

	return status ? ordering_fail_publish(ordering, status) : GPUSHARE_OK;
}

/* The stream's context is current. Drivers crash where an interprocess event meets a stream of
 * another context. */
static bool is_elsewhere(const struct ordering *ordering)
{
	cu_context current = NULL;

	return ordering->driver->cuCtxGetCurrent(&current) == CU_OK && current &&
	       current != ordering->context;
}

int order_event_publish(struct ordering *ordering, cu_stream stream, uint64_t *out_sequence)
{
	uint64_t before;
	int status;

	if (is_elsewhere(ordering))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is ordered by events, which only streams of the CUDA context "
				"record in which it was made or attached; wait for this stream, "
				"and call gpushare_publish_host()",
				ordering->name);
	status = event_make(ordering, &ordering->event, CU_EVENT_SHARED);
	while (!status) {
		status = ordering_take_page_turn(ordering);
		if (status)
			break;
		status = publish_next(ordering, stream, &before, out_sequence);
		order_give_turn(ordering->page);
		if (status != GPUSHARE_E_NOT_READY)
			break;
		status = wait_behind(ordering, before);
	}
	return status;
}

/* That publisher's, in this process; NULL: it can't be had here. */
static cu_event event_opened(struct ordering *ordering, uint64_t publisher, uint32_t as)
{
	_order_scope_ struct order_scope scope = {.driver = NULL};
	cu_ipc_event_handle handle;
	cu_event made = NULL, none = NULL;

	if (atomic_load(&ordering->opened))
		return ordering->opened_for == publisher && ordering->opened_as == as
			   ? atomic_load(&ordering->opened)
			   : NULL;
	memcpy(&handle, ordering->page->event, sizeof(handle));
	if (order_enter(ordering->driver, ordering->context, &scope) ||
	    ordering->driver->cuIpcOpenEventHandle(&made, handle) != CU_OK)
		return NULL;
	if (!atomic_compare_exchange_strong(&ordering->opened, &none, made)) {
		ordering->driver->cuEventDestroy_v2(made);
		return NULL; /* another thread's is there in a moment */
	}
	atomic_store(&ordering->opened_as, as);
	atomic_store(&ordering->opened_for, publisher);
	return made;
}

/* A stream capture, of whichever stream and thread, is not spoilt by that. */
static int event_ask(const struct ordering *ordering, cu_event event)
{
	_order_scope_ struct order_scope scope = {.driver = NULL};
	cu_result result;
	int status = order_enter(ordering->driver, ordering->context, &scope);

	if (status)
		return status;
	result = ordering->driver->cuEventQuery(event);
	if (result == CU_NOT_READY)
		return GPUSHARE_E_NOT_READY;
	return result == CU_OK ? GPUSHARE_OK : stream_fail(ordering, result, "cuEventQuery");
}

/* Of another process, by the CPU. What was recorded is read before the event is asked: recorded once more
 * since, that covers it. It is the one that was recorded as long as there is no other. */
static int look_at_theirs(struct ordering *ordering, uint64_t at_least)
{
	struct order_page *page = ordering->page;
	uint64_t publisher = atomic_load(&page->publisher);
	uint32_t as = atomic_load(&page->has_event);
	cu_event event;
	int status;

	if (order_is_gone(page) || !as || !order_reaches(atomic_load(&page->recorded), at_least))
		return GPUSHARE_E_NOT_READY;
	event = event_opened(ordering, publisher, as);
	status = event ? event_ask(ordering, event) : GPUSHARE_E_NOT_READY;
	if (!status &&
	    (atomic_load(&page->publisher) != publisher || atomic_load(&page->has_event) != as))
		return GPUSHARE_E_NOT_READY;
	return status;
}

/* This process's own is waited for by the stream, which does not outlive it. */
static int event_look(struct ordering *ordering, cu_stream stream, uint64_t at_least)
{
	int status = event_follow(ordering, stream, at_least);

	return status == GPUSHARE_E_NOT_READY ? look_at_theirs(ordering, at_least) : status;
}

/* A stream of another context has what is published alone to go by. */
int order_event_acquire(struct ordering *ordering, cu_stream stream, uint64_t at_least)
{
	bool elsewhere = is_elsewhere(ordering);
	int status;

	for (;;) {
		status = order_wait(ordering->page, at_least, 0, NULL);
		if (status == GPUSHARE_E_TIMED_OUT && !elsewhere)
			status = event_look(ordering, stream, at_least);
		if (status == GPUSHARE_E_OWNER_GONE)
			return ordering_fail_gone(ordering, at_least);
		if (status != GPUSHARE_E_TIMED_OUT && status != GPUSHARE_E_NOT_READY)
			return status;
		order_wait(ordering->page, at_least, LOOK_MS, NULL);
	}
}

/* In the lane's turn. */
int order_event_release(struct ordering *ordering, cu_stream stream, uint32_t slot,
			uint64_t sequence)
{
	int status = event_make(ordering, &ordering->released, 0);

	if (!status)
		status = event_chain(ordering, stream, ordering->released);
	return status ? status : store_later(ordering, stream, slot + 1, sequence);
}

void order_event_finish(struct ordering *ordering)
{
	cu_event events[] = {ordering->event, ordering->released, ordering->opened};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i])
			ordering->driver->cuEventDestroy_v2(events[i]);
}
