/* SPDX-License-Identifier: MIT */
/* The shim's own streams, with a driver played by the test: which stream a free uses, how many
 * streams there are, and what a failed call leaves. The shim gives these streams nothing to wait
 * for. */
#include "unit.h"

#include "preload/shim_apart.c"

#define CONTEXT(n) ((cu_context)(uintptr_t)(4096 + (n)))
#define POINTER ((cu_deviceptr)1 << 20)
#define OURS 1000 /* handles of the shim's streams and events start here */

/* The driver's calls that are counted and that may fail. */
enum call { STREAM, EVENT, RECORD, QUERY, FREE, SYNCHRONIZE, PUSH, CALLS };

static struct {
	unsigned int asked[CALLS];
	enum call failing; /* CALLS: no call fails */
	unsigned int from; /* the failing call succeeds this often first */
	uintptr_t next;
	int streams, events;		  /* made and not destroyed */
	bool stands;			  /* the shim's streams still have work */
	cu_stream freed_in, synchronized; /* the streams of the latest calls */
	/* Each runs within its call, in the place of another thread. */
	void (*on_stream)(void);
	void (*on_query)(void), (*on_synchronize)(void);
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

static cu_result play_record(cu_event event, cu_stream stream)
{
	assert_in_range(number(event), 0, played.next - 1);
	assert_in_range(number(stream), 0, played.next - 1);
	return answer(RECORD);
}

static cu_result play_query(cu_event event)
{
	if (played.on_query)
		played.on_query();
	if (answer(QUERY) != CU_OK)
		return CU_UNKNOWN;
	assert_in_range(number(event), 0, played.next - 1);
	return played.stands ? CU_NOT_READY : CU_OK;
}

static cu_result play_free(cu_deviceptr pointer, cu_stream stream)
{
	assert_int_equal(pointer, POINTER);
	played.freed_in = stream;
	return answer(FREE);
}

static cu_result play_synchronize(cu_stream stream)
{
	assert_in_range(number(stream), 0, played.next - 1);
	assert_false(played.stands); /* otherwise the call would wait */
	played.synchronized = stream;
	if (played.on_synchronize)
		played.on_synchronize();
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
	memset(&played, 0, sizeof(played));
	played.failing = CALLS;
	memset(apart.known, 0, sizeof(apart.known));
	atomic_store(&apart.count, 0);
	driver = (struct driver){
	    .cuStreamCreate = play_stream,
	    .cuStreamDestroy_v2 = play_stream_end,
	    .cuStreamSynchronize = play_synchronize,
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

static void one_that_waits_for_nothing(void **state)
{
	cu_stream alone;

	assert_false(apart_any());
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	alone = played.freed_in;
	assert_true(apart_any() && played.streams == 1);
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	assert_true(played.freed_in == alone && played.streams == 1 && played.events == 1);
	assert_true(apart_open(&driver, CONTEXT(0)) && played.streams == 1);
	assert_true(apart_open(&driver, CONTEXT(1)) && played.streams == 2);
	assert_int_equal(apart_free(&driver, CONTEXT(1), POINTER), CU_OK);
	assert_true(played.freed_in != alone && played.streams == 2);
	assert_int_equal(apart_free(&driver, NULL, POINTER), CU_NOT_SUPPORTED);
	assert_false(apart_open(&driver, NULL));
}

static void enter_as_another_thread(void)
{
	struct own_stream out;

	assert_true(open_one(&driver, CONTEXT(0), &out));
}

static void another_thread_was_quicker(void **state)
{
	played.on_stream = enter_as_another_thread;
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	assert_ptr_equal(played.freed_in, apart.known[0].stream);
	assert_true(played.streams == 1 && played.events == 1 && atomic_load(&apart.count) == 1);
}

static void more_contexts_than_there_is_room_for(void **state)
{
	int all = APART_CONTEXTS;

	for (int i = 0; i < all; i++)
		assert_int_equal(apart_free(&driver, CONTEXT(i), POINTER), CU_OK);
	assert_int_equal(apart_free(&driver, CONTEXT(all), POINTER), CU_NOT_SUPPORTED);
	assert_false(apart_open(&driver, CONTEXT(all)));
	assert_true(played.streams == all && played.events == all);
	apart_forget(CONTEXT(7)); /* its streams ended with it */
	assert_int_equal(apart_free(&driver, CONTEXT(all), POINTER), CU_OK);
	for (int i = 0; i <= all; i++)
		apart_forget(CONTEXT(i));
	assert_false(apart_any());
	assert_false(apart_drain(&driver, monotonic_ms()));
}

/* If a call fails, the memory is freed or nothing is done. No stream or event is left over, and
 * the table stays usable. */
static void what_fails_is_not_done(void **state)
{
	for (played.failing = 0; played.failing < SYNCHRONIZE; played.failing++) {
		for (unsigned int from = 0; from < 3; from++) {
			enum call failing = played.failing;
			cu_result result;

			set_up(NULL);
			played.failing = failing;
			played.from = from;
			result = apart_free(&driver, CONTEXT(0), POINTER);
			if (result == CU_OK)
				assert_int_equal(played.asked[FREE], 1);
			else
				assert_true(!played.asked[FREE] || failing == FREE);
			assert_true(result == CU_OK || played.asked[failing] > from);
			assert_int_equal(played.streams, atomic_load(&apart.count));
			assert_int_equal(played.events, played.streams);
			played.failing = CALLS;
			assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
			assert_int_equal(played.asked[FREE],
					 (result == CU_OK || failing == FREE) + 1);
			played.failing = failing;
		}
	}
}

static void an_older_driver(void **state)
{
	void **const needed[] = {
	    (void **)&driver.cuStreamCreate,	  (void **)&driver.cuStreamDestroy_v2,
	    (void **)&driver.cuStreamSynchronize, (void **)&driver.cuEventCreate,
	    (void **)&driver.cuEventDestroy_v2,	  (void **)&driver.cuEventRecord,
	    (void **)&driver.cuEventQuery,	  (void **)&driver.cuMemFreeAsync,
	};

	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++) {
		void *whole = *needed[i];

		*needed[i] = NULL;
		assert_false(apart_open(&driver, CONTEXT(0)));
		assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_NOT_SUPPORTED);
		*needed[i] = whole;
	}
	assert_true(!apart_any() && !played.next);
}

/* A stream whose work is done is synchronized once, which waits for nothing. */
static void drained(void **state)
{
	cu_stream alone;

	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	alone = played.freed_in;
	assert_true(apart_drain(&driver, monotonic_ms()));
	assert_ptr_equal(played.synchronized, alone);
	assert_int_equal(played.asked[SYNCHRONIZE], 1);
	assert_false(apart_drain(&driver, monotonic_ms() + 5)); /* no free since the last drain */
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	played.stands = true;
	assert_false(apart_drain(&driver, monotonic_ms() + 5));
	assert_int_equal(played.asked[SYNCHRONIZE], 1);
	played.stands = false;
	assert_true(apart_drain(&driver, monotonic_ms()));
	assert_int_equal(played.asked[SYNCHRONIZE], 2);
	assert_false(apart_drain(&driver, monotonic_ms()));
}

static void come_at_the_third_query(void)
{
	played.stands = played.asked[QUERY] < 2;
}

/* An earlier wait may have used up the time. The drain still asks a few times, as a GPU needs a
 * moment. */
static void drained_when_all_time_is_up(void **state)
{
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	played.on_query = come_at_the_third_query;
	assert_true(apart_drain(&driver, monotonic_ms() - 1));
	assert_int_equal(played.asked[QUERY], 3);
}

static void what_cannot_be_drained(void **state)
{
	static const enum call failing[] = {PUSH, RECORD, SYNCHRONIZE};

	for (size_t i = 0; i < sizeof(failing) / sizeof(*failing); i++) {
		set_up(NULL);
		assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
		played.failing = failing[i];
		assert_false(apart_drain(&driver, monotonic_ms() + 1000));
		played.failing = CALLS;
		assert_int_equal(apart_drain(&driver, monotonic_ms()), failing[i] != SYNCHRONIZE);
	}
	set_up(NULL);
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	driver.cuCtxPushCurrent_v2 = NULL;
	assert_false(apart_drain(&driver, monotonic_ms()));
}

static void end_context(void)
{
	played.on_query = NULL;
	apart_forget(CONTEXT(0));
}

static void free_more(void)
{
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
}

static void while_others_are_at_it(void **state)
{
	played.stands = true;
	assert_int_equal(apart_free(&driver, CONTEXT(0), POINTER), CU_OK);
	played.asked[QUERY] = 0;
	played.on_query = end_context; /* stream and event end with the context */
	assert_false(apart_drain(&driver, monotonic_ms() + 1000));
	assert_int_equal(played.asked[QUERY], 1);
	played.stands = false;
	free_more();
	played.on_synchronize = free_more;
	assert_true(apart_drain(&driver, monotonic_ms() + 1000));
	assert_in_range(played.asked[SYNCHRONIZE], 1, APART_CONTEXTS);
}

UNIT_MAIN(cmocka_unit_test_setup(one_that_waits_for_nothing, set_up),
	  cmocka_unit_test_setup(another_thread_was_quicker, set_up),
	  cmocka_unit_test_setup(more_contexts_than_there_is_room_for, set_up),
	  cmocka_unit_test_setup(what_fails_is_not_done, set_up),
	  cmocka_unit_test_setup(an_older_driver, set_up), cmocka_unit_test_setup(drained, set_up),
	  cmocka_unit_test_setup(drained_when_all_time_is_up, set_up),
	  cmocka_unit_test_setup(what_cannot_be_drained, set_up),
	  cmocka_unit_test_setup(while_others_are_at_it, set_up))
