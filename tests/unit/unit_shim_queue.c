/* SPDX-License-Identifier: MIT */
/* What was freed in stream order: the queue itself, by a driver that answers as it is told, without
 * lock and memory too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <stdio.h>

#include "shim_attach.h"
#include "shim_linger.h"
#include "shim_lookup.h"
#include "shim_share.h"
#include "noted.h"
#include "stuck.h"

#define STREAM ((cu_stream)(uintptr_t)64)

static struct driver played;
static const struct driver *standing; /* NULL: the program has none */

#define attach_close noted_close
#define linger_keep noted_keep
#define share_end noted_end
#define share_left noted_left
#define lookup_driver() standing
#include "shim_async.c"

static cu_context its_context, current; /* of the stream; of the thread */
static cu_result to_create, to_record, to_query, to_push;
static uintptr_t last_event;
static unsigned int events, pushed;
static unsigned int others; /* so often another thread frees while this one looks */

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
	(void)unused;
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
	(void)state;
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
	(void)state;
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
	entry.reading = live_reading();
	return async_defer(&played, &entry, STREAM);
}

static void ends_by_its_kind(void **state)
{
	(void)state;
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_int_equal(defer(2, LIVE_VMM), CU_OK);
	assert_int_equal(defer(3, LIVE_IPC), CU_OK);
	async_sweep();
	assert_true(!*done && async_holds((uint64_t)2 << 20));
	to_query = CU_OK;
	live_counted();
	async_sweep();
	/* the program's own goes on in limbo; a handle is closed later, where closing may wait */
	assert_string_equal(done, "keep1 close2 detach2 detach3 ");
	assert_true(async_any() && !async_waits());
	assert_true(!async_holds((uint64_t)2 << 20) && async_holds((uint64_t)3 << 20));
	async_sweep();
	async_close();
	assert_string_equal(done, "keep1 close2 detach2 detach3 close3 ");
	assert_false(async_holds((uint64_t)3 << 20));
}

static int64_t soon(void)
{
	return monotonic_ms() + 20;
}

/* As much as a call of the program has time for. */
static void ends_a_few_at_a_time(void **state)
{
	(void)state;
	for (uint64_t i = 1; i <= SWEEP_MAX + 2; i++)
		assert_int_equal(defer(i, LIVE_OWN), CU_OK);
	to_query = CU_OK;
	async_sweep();
	assert_int_equal(atomic_load(&queue.waiting), 2);
	assert_true(async_drain(soon()) && !async_drain(soon()));
}

static void drained_no_longer_than_that(void **state)
{
	(void)state;
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_true(!async_drain(soon()) && async_waits());
	standing = NULL; /* its driver was unloaded */
	assert_false(async_drain(soon()));
	async_close();
	assert_true(async_waits());
	standing = &played;
	to_query = CU_INVALID_VALUE; /* of an event that is not there any more: so it is over */
	assert_true(async_drain(soon()));
	assert_string_equal(done, "keep1 ");
}

static void drained_while_others_free(void **state)
{
	(void)state;
	to_query = CU_OK;
	others = 20;
	assert_int_equal(defer(30, LIVE_VMM), CU_OK);
	assert_true(async_drain(0));
	assert_in_range(others, 15, 19); /* its time was up */
	others = 0;
	assert_true(async_drain(soon()));
}

static void an_older_driver(void **state)
{
	void **const needed[] = {(void **)&played.cuEventCreate, (void **)&played.cuEventRecord,
				 (void **)&played.cuEventQuery, (void **)&played.cuEventDestroy_v2};

	(void)state;
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		void *whole = *needed[i];

		*needed[i] = NULL;
		assert_int_equal(defer(1, LIVE_OWN), CU_NOT_SUPPORTED);
		*needed[i] = whole;
	}
	/* Whose stream it is is not said: it is the thread's context's. */
	its_context = NULL;
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_ptr_equal(queue.first->context, context(2));
	played.cuStreamGetCtx = NULL;
	assert_int_equal(defer(2, LIVE_OWN), CU_OK);
	played.cuCtxGetCurrent = NULL;
	assert_int_equal(defer(3, LIVE_OWN), CU_INVALID_CONTEXT);
	to_query = CU_OK;
	async_sweep();
	assert_string_equal(done, "keep1 keep2 ");
}

static void refused(void **state)
{
	(void)state;
	to_push = CU_INVALID_CONTEXT;
	assert_int_equal(defer(1, LIVE_OWN), CU_INVALID_CONTEXT);
	to_push = CU_OK;
	to_create = CU_OUT_OF_MEMORY;
	assert_int_equal(defer(1, LIVE_OWN), CU_OUT_OF_MEMORY);
	to_create = CU_OK;
	to_record = CU_UNKNOWN;
	assert_int_equal(defer(1, LIVE_OWN), CU_UNKNOWN);
	assert_false(async_any() || events);
	to_record = CU_OK;
	stuck_after = 0;
	assert_int_equal(defer(1, LIVE_OWN), CU_OUT_OF_MEMORY);
	stuck_after = -1u;
	/* Its context can't be had for now: it stays. */
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	to_push = CU_INVALID_CONTEXT;
	to_query = CU_OK;
	async_sweep();
	assert_true(async_waits());
	to_push = CU_OK;
	async_sweep();
}

static void told_to_another_registry(void **state)
{
	struct live out[4];
	size_t count = 9;

	(void)state;
	for (uint64_t i = 1; i <= 3; i++)
		assert_int_equal(defer(i, i == 2 ? LIVE_IPC : LIVE_VMM), CU_OK);
	queue.first->entry.name[0] = '\0';
	queue.first->next->next->entry.generation = 2;
	assert_int_equal(async_attached(2), 2);
	assert_int_equal(async_attached(1), 0); /* of no name */
	assert_true(async_read_anew() && async_read(out, 1, &count) && count == 1);
	assert_true(async_read(out, 4, &count) && count == 1);
	assert_true(async_read(out, 4, &count) && count == 0);
	to_query = CU_OK;
	async_sweep();
	assert_true(async_read_anew() && async_read(out, 4, &count));
	assert_int_equal(count, 0); /* the registry knows of the one that is left */
	assert_int_equal(async_attached(2), 0);
	async_close();
}

/* The context of the stream ends, or that of the memory, or neither after all. */
static void a_context_ends(void **state)
{
	struct pending *taken;

	(void)state;
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_int_equal(defer(2, LIVE_VMM), CU_OK);
	assert_int_equal(defer(3, LIVE_IPC), CU_OK);
	its_context = context(3);
	assert_int_equal(defer(4, LIVE_IPC),
			 CU_OK); /* its memory is context 1's, its stream is not */
	assert_null(async_take_of(context(7)));
	queue.first->busy = true;
	taken = async_take_of(context(3));
	assert_ptr_equal(taken->entry.pointer, (uint64_t)4 << 20);
	async_return(taken);
	assert_int_equal(atomic_load(&queue.count), 4);
	taken = async_take_of(context(1));
	assert_int_equal(atomic_load(&queue.count), 1); /* another thread has that one */
	queue.first->busy = false;
	events -= 2; /* of context 1, and gone with it */
	async_end(&played, context(1), taken);
	assert_string_equal(done, "detach4 detach3 close2 detach2 ");
	assert_int_equal(events, 1);
	*done = '\0';
	taken = async_take_of(context(1));
	events--;
	async_end(&played, context(1), taken);
	assert_string_equal(done, "withdraw1 ");
	assert_null(async_take_of(context(1)));
}

/* What was told of is not told again; without a driver nobody is asked. */
static void a_context_ends_behind_its_stream(void **state)
{
	struct pending *taken;

	(void)state;
	assert_int_equal(defer(1, LIVE_IPC), CU_OK);
	to_query = CU_OK;
	async_sweep();
	assert_string_equal(done, "detach1 ");
	taken = async_take_of(context(1));
	events--;
	async_end(&played, context(1), taken);
	assert_string_equal(done, "detach1 ");
	its_context = context(3);
	assert_int_equal(defer(2, LIVE_IPC), CU_OK);
	taken = async_take_of(context(1));
	events--;
	async_end(NULL, context(1), taken);
	assert_string_equal(done, "detach1 detach2 ");
}

/* Nothing is claimed, and nothing lost. */
static void without_the_lock(void **state)
{
	struct pending *taken;
	struct live out;
	size_t count = 9;

	(void)state;
	assert_int_equal(defer(1, LIVE_OWN), CU_OK);
	assert_int_equal(defer(2, LIVE_IPC), CU_OK);
	stuck_lock = true;
	assert_int_equal(defer(3, LIVE_OWN), CU_OUT_OF_MEMORY);
	assert_int_equal(events, 2);
	assert_false(async_holds((uint64_t)1 << 20));
	assert_int_equal(async_attached(2), 0);
	assert_false(async_read_anew() || async_read(&out, 1, &count));
	assert_int_equal(count, 9);
	assert_null(async_take_of(context(1)));
	to_query = CU_OK;
	async_sweep();
	assert_string_equal(done, "");
	stuck_lock = false;
	taken = async_take_of(context(1));
	stuck_lock = true;
	async_return(taken); /* lost to the queue: it ends with the process */
	assert_false(async_any());
	stuck_lock = false;
	async_return(taken);
	assert_true(async_holds((uint64_t)1 << 20));
	async_sweep();
	async_close();
	assert_int_equal(strlen(done), strlen("detach2 keep1 close2 "));
}

#define with_queue(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	    with_queue(ends_by_its_kind),
	    with_queue(ends_a_few_at_a_time),
	    with_queue(drained_no_longer_than_that),
	    with_queue(drained_while_others_free),
	    with_queue(an_older_driver),
	    with_queue(refused),
	    with_queue(told_to_another_registry),
	    with_queue(a_context_ends),
	    with_queue(a_context_ends_behind_its_stream),
	    with_queue(without_the_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
