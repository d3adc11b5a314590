/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_PLAYED_APART_H
#define TESTS_UNIT_PLAYED_APART_H
/* Our own streams, in a driver that answers as it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "shim_apart.c"

#define CONTEXT(n) ((cu_context)(uintptr_t)(4096 + (n)))
#define PROGRAMS(n) ((cu_stream)(uintptr_t)(64 + (n)))
#define POINTER ((cu_deviceptr)1 << 20)
#define OURS 1000 /* streams and events from there on */

/* What fails, and how often it was asked. */
enum call { STREAM, EVENT, RECORD, QUERY, WAIT, FREE, SYNCHRONIZE, PUSH, CALLS };

static struct {
	unsigned int asked[CALLS];
	enum call failing; /* CALLS: none */
	unsigned int from; /* the failing one's first so many calls are well */
	uintptr_t next;
	int streams, events; /* that were made and are there still */
	bool stands[OURS];   /* of events: not reached so far */
	bool holds[OURS];    /* of the program's streams: held up */
	bool behind[OURS];   /* of ours: given something to wait for that stands */
	cu_stream freed_in, synchronized, waits; /* the latest */
	void (*on_stream)(void);		 /* as another thread, as what follows */
	void (*on_query)(void), (*on_wait)(void), (*on_synchronize)(void);
} played;

static cu_result answer(enum call call)
{
	unsigned int before = played.asked[call]++;

	return played.failing == call && before >= played.from ? CU_UNKNOWN : CU_OK;
}

static uintptr_t number(const void *handle)
{
	uintptr_t n = (uintptr_t)handle;

	return n >= OURS ? n - OURS : n;
}

static cu_result play_stream(cu_stream *out, unsigned int flags)
{
	void (*on_stream)(void) = played.on_stream;

	assert_int_equal(flags, CU_STREAM_NONBLOCKING);
	if (answer(STREAM) != CU_OK)
		return CU_UNKNOWN;
	played.on_stream = NULL;
	if (on_stream)
		on_stream();
	played.streams++;
	*out = (cu_stream)(OURS + played.next++);
	return CU_OK;
}

static cu_result play_stream_end(cu_stream stream)
{
	assert_in_range(number(stream), 0, played.next - 1);
	played.streams--;
	return CU_OK;
}

static cu_result play_event(cu_event *out, unsigned int flags)
{
	assert_int_equal(flags, CU_EVENT_NO_TIMING);
	if (answer(EVENT) != CU_OK)
		return CU_UNKNOWN;
	played.events++;
	*out = (cu_event)(OURS + played.next++);
	return CU_OK;
}

static cu_result play_event_end(cu_event event)
{
	assert_in_range(number(event), 0, played.next - 1);
	played.events--;
	return CU_OK;
}

/* Events stand as what they were recorded in does. */
static cu_result play_record(cu_event event, cu_stream stream)
{
	if (answer(RECORD) != CU_OK)
		return CU_UNKNOWN;
	played.stands[number(event)] =
	    (uintptr_t)stream < OURS ? played.holds[number(stream)] : played.behind[number(stream)];
	return CU_OK;
}

static cu_result play_query(cu_event event)
{
	cu_result result = played.stands[number(event)] ? CU_NOT_READY : CU_OK;

	if (played.on_query)
		played.on_query();
	return answer(QUERY) == CU_OK ? result : CU_UNKNOWN;
}

static cu_result play_wait(cu_stream stream, cu_event event, unsigned int flags)
{
	assert_int_equal(flags, 0);
	if (played.on_wait)
		played.on_wait();
	if (answer(WAIT) != CU_OK)
		return CU_UNKNOWN;
	played.behind[number(stream)] |= played.stands[number(event)];
	played.waits = stream;
	return CU_OK;
}

static cu_result play_free(cu_deviceptr pointer, cu_stream stream)
{
	assert_int_equal(pointer, POINTER);
	played.freed_in = stream;
	return answer(FREE);
}

static cu_result play_synchronize(cu_stream stream)
{
	assert_false(played.behind[number(stream)]); /* or it would wait */
	played.synchronized = stream;
	if (played.on_synchronize)
		played.on_synchronize();
	assert_false(played.behind[number(stream)]);
	return answer(SYNCHRONIZE);
}

static cu_result play_push(cu_context context)
{
	assert_non_null(context);
	return answer(PUSH);
}

static cu_result play_pop(cu_context *out)
{
	*out = NULL;
	return CU_OK;
}

static struct driver driver;

static int set_up(void **state)
{
	(void)state;
	memset(&played, 0, sizeof(played));
	played.failing = CALLS;
	memset(apart.known, 0, sizeof(apart.known));
	atomic_store(&apart.count, 0);
	driver = (struct driver){
	    .cuStreamCreate = play_stream,
	    .cuStreamDestroy_v2 = play_stream_end,
	    .cuStreamSynchronize = play_synchronize,
	    .cuStreamWaitEvent = play_wait,
	    .cuEventCreate = play_event,
	    .cuEventDestroy_v2 = play_event_end,
	    .cuEventRecord = play_record,
	    .cuEventQuery = play_query,
	    .cuMemFreeAsync = play_free,
	    .cuCtxPushCurrent_v2 = play_push,
	    .cuCtxPopCurrent_v2 = play_pop,
	};
	return 0;
}

static cu_result free_behind(int stream)
{
	return apart_free_behind(&driver, CONTEXT(0), PROGRAMS(stream), POINTER);
}

/* Of what is behind all. */
static void all_goes_on(void)
{
	memset(played.holds, 0, sizeof(played.holds));
	memset(played.stands, 0, sizeof(played.stands));
	memset(played.behind, 0, sizeof(played.behind));
}

#endif
