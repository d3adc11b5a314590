/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_QUEUE_PLAYED_H
#define GPUSHARE_TESTS_UNIT_QUEUE_PLAYED_H
/* The queue of stream-ordered frees (shim_async.c, included below) on a driver whose results the
 * test sets. Only for the test's own file to include, after cmocka.h. */

#include "preload/shim_attach.h"
#include "preload/shim_linger.h"
#include "preload/shim_lookup.h"
#include "preload/shim_share.h"
#include "noted.h"
#include "stuck.h"

#define STREAM ((cu_stream)(uintptr_t)64)

static struct driver played;
static const struct driver
    *standing; /* lookup_driver()'s result; NULL: the program has no driver */

#define attach_close noted_close
#define linger_keep noted_keep
#define linger_pass noted_pass
#define share_end noted_end
#define share_left noted_left
#define share_left_later(entry) (noted_left(entry), true)
#define lookup_driver() standing
#include "preload/shim_async.c"

static cu_context its_context, current; /* the stream's context; the thread's current one */
static cu_result to_create, to_record, to_query, to_push;
static uintptr_t last_event;
static unsigned int events, pushed;
static unsigned int
    others; /* how often query_event() still frees memory, as another thread would */

static cu_result get_stream_context(cu_stream stream, cu_context *out_context)
{
	assert_ptr_equal(stream, STREAM);
	*out_context = its_context;
	return CU_OK;
}

static cu_result get_current(cu_context *out_context)
{
	*out_context = current;
	return CU_OK;
}

static cu_result push(cu_context unused)
{
	pushed += to_push == CU_OK;
	return to_push;
}

static cu_result pop(cu_context *out_context)
{
	*out_context = NULL;
	pushed--;
	return CU_OK;
}

static cu_result create_event(cu_event *out_event, unsigned int flags)
{
	assert_int_equal(flags, CU_EVENT_NO_TIMING);
	if (to_create != CU_OK)
		return to_create;
	events++;
	*out_event = (cu_event)++last_event;
	return CU_OK;
}

static cu_result record_event(cu_event event, cu_stream stream)
{
	assert_true(event && stream == STREAM && pushed);
	return to_record;
}

static cu_result defer(uint64_t generation, enum live_kind kind);

static cu_result query_event(cu_event event)
{
	assert_true(event && pushed);
	if (others)
		assert_int_equal(defer(others--, LIVE_VMM), CU_OK);
	return to_query;
}

static cu_result destroy_event(cu_event event)
{
	assert_non_null(event);
	events--;
	return CU_OK;
}

static cu_context context(uintptr_t number)
{
	return (cu_context)(number << 8);
}

static int set_up(void **state)
{
	*done = '\0';
	played = (struct driver){
	    .cuStreamGetCtx = get_stream_context,
	    .cuCtxGetCurrent = get_current,
	    .cuCtxPushCurrent_v2 = push,
	    .cuCtxPopCurrent_v2 = pop,
	    .cuEventCreate = create_event,
	    .cuEventRecord = record_event,
	    .cuEventQuery = query_event,
	    .cuEventDestroy_v2 = destroy_event,
	};
	standing = &played;
	its_context = context(1);
	current = context(2);
	to_create = to_record = to_push = CU_OK;
	to_query = CU_NOT_READY;
	stuck_lock = false;
	stuck_after = -1u;
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(pushed + events, 0);
	assert_false(async_any() || async_waits() || queue.first);
	return 0;
}

static cu_result defer(uint64_t generation, enum live_kind kind)
{
	struct live entry = {.kind = kind,
			     .generation = generation,
			     .pointer = generation << 20,
			     .context = context(1)};

	snprintf(entry.name, sizeof(entry.name), "q%llu", (unsigned long long)generation);
	entry.reading = resync_readings(&live_resync);
	return async_defer(&played, &entry, STREAM);
}

#define with_queue(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
