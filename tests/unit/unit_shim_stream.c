/* SPDX-License-Identifier: MIT */
/* Named stream-ordered memory, which is cuMemAlloc memory: freed where its stream is destroyed at
 * once, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants some of the above first */
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>

#include "monotonic.h"
#include "preloaded.h"

#define PER_THREAD ((cu_stream)(uintptr_t)2) /* CU_STREAM_PER_THREAD */

static const struct driver *driver;
static struct driver *table;
static cu_stream stream;

static cu_deviceptr make_here(void)
{
	struct buffers_stream call;
	cu_deviceptr pointer = 0;

	call = (struct buffers_stream){
	    .async = driver->cuMemAllocAsync, .stream = stream, .meant = stream};
	CHECK(buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, (const void *)preloaded,
				  &pointer, BLOCK) == CU_OK);
	CHECK(preloaded_works(pointer, BLOCK));
	return pointer;
}

/* In a stream of its own, which is `stream` then. */
static cu_deviceptr make(void)
{
	CHECK(driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	return make_here();
}

static cu_deviceptr begin(void)
{
	driver = preloaded("x%i", NULL);
	table = preloaded_table();
	return make();
}

static cu_result free_it(cu_deviceptr pointer)
{
	return buffers_free_async(driver->cuMemFreeAsync, pointer, stream, stream);
}

static bool is_gone(cu_deviceptr pointer)
{
	return driver->cuCtxSynchronize() == CU_OK &&
	       driver->cuMemFree_v2(pointer) == CU_INVALID_VALUE;
}

static void destroyed(void)
{
	cu_deviceptr pointer = begin();
	struct gpushare_info info;

	CHECK(preloaded_finds("x0", &info) && info.backing == GPUSHARE_BACKING_IPC);
	CHECK(free_it(pointer) == CU_OK && !preloaded_finds("x0", &info));
	CHECK(driver->cuStreamDestroy_v2(stream) == CU_OK);
	CHECK(is_gone(pointer));
}

/* The stream stands until the word that this gives is set to 1. */
static uint32_t *hold_up(void)
{
	uint32_t *word = NULL;

	CHECK(driver->cuMemHostAlloc((void **)&word, 4096, CU_HOST_ALLOC_PORTABLE) == CU_OK);
	*word = 0;
	CHECK(driver->cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ) == CU_OK);
	return word;
}

static void let_go(uint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

/* Behind what its own stream has. */
static void held_up(void)
{
	cu_deviceptr pointer = begin();
	uint32_t *word = hold_up();

	CHECK(free_it(pointer) == CU_OK && free_it(pointer) == CU_INVALID_VALUE);
	CHECK(driver->cuStreamDestroy_v2(stream) == CU_OK);
	CHECK(preloaded_works(pointer, BLOCK)); /* it is there for what the stream has */
	let_go(word);
	CHECK(is_gone(pointer));
}

/* Without waiting for any stream. */
static bool is_given_back(cu_deviceptr pointer)
{
	size_t left, total, size;
	cu_deviceptr base;

	CHECK(driver->cuMemGetInfo_v2(&left, &total) == CU_OK); /* which looks what has come */
	return driver->cuMemGetAddressRange_v2(&base, &size, pointer) != CU_OK;
}

/* But not behind what another one has, be that done or held up as well. */
static void held_up_apart(void)
{
	enum { STREAMS = 4 };
	cu_deviceptr pointers[STREAMS], free = begin();
	cu_stream idle = stream;
	uint32_t *words[STREAMS];

	for (int i = 0; i < STREAMS; i++) {
		pointers[i] = make();
		words[i] = hold_up();
		CHECK(free_it(pointers[i]) == CU_OK);
	}
	stream = idle;
	CHECK(free_it(free) == CU_OK && is_given_back(free));
	for (int i = STREAMS - 1; i >= 0; i--) {
		CHECK(!is_given_back(pointers[i]));
		let_go(words[i]);
		CHECK(is_given_back(pointers[i]));
	}
}

struct freed {
	cu_context context;
	cu_deviceptr pointer;
	uint32_t *word;
};

static void *free_in_own_thread(void *user)
{
	struct freed *freed = user;

	CHECK(driver->cuCtxSetCurrent(freed->context) == CU_OK);
	freed->pointer = make_here();
	freed->word = hold_up();
	CHECK(free_it(freed->pointer) == CU_OK);
	return NULL;
}

/* Each thread's own stream has the same name, and is another one. */
static void held_up_in_threads(void)
{
	struct freed first, second;
	cu_context context;
	pthread_t thread;

	begin();
	stream = PER_THREAD;
	CHECK(driver->cuCtxGetCurrent(&context) == CU_OK);
	first.context = second.context = context;
	CHECK(!pthread_create(&thread, NULL, free_in_own_thread, &first));
	CHECK(!pthread_join(thread, NULL));
	free_in_own_thread(&second);
	CHECK(!is_given_back(first.pointer) && !is_given_back(second.pointer));
	let_go(second.word);
	CHECK(is_given_back(second.pointer) && !is_given_back(first.pointer));
	let_go(first.word);
	CHECK(is_given_back(first.pointer));
}

/* Our streams end with their context; the next one, of the same handle, has others. */
static void end_round(cu_deviceptr pointer)
{
	CHECK(free_it(pointer) == CU_OK);
	CHECK(driver->cuStreamDestroy_v2(stream) == CU_OK);
	CHECK(is_gone(pointer));
}

static void reset(void)
{
	cu_context context = NULL, again = NULL;

	end_round(begin());
	CHECK(driver->cuCtxGetCurrent(&context) == CU_OK);
	for (int i = 0; i < 3; i++) {
		CHECK(buffers_primary_reset(driver->cuDevicePrimaryCtxReset_v2, 0) == CU_OK);
		CHECK(driver->cuDevicePrimaryCtxRetain(&again, 0) == CU_OK && again == context);
		CHECK(driver->cuCtxSetCurrent(again) == CU_OK);
		end_round(make());
	}
}

static void destroyed_context(void)
{
	cu_context context = NULL;

	end_round(begin());
	for (int i = 0; i < 40; i++) { /* more than are known at a time */
		CHECK(driver->cuCtxCreate_v2(&context, 0, 0) == CU_OK);
		end_round(make());
		CHECK(buffers_context_destroy(driver->cuCtxDestroy_v2, context) == CU_OK);
	}
	end_round(make());
}

/* More than there are streams for, and in threads of their own. */
static void held_up_all(void)
{
	enum { STREAMS = 11 };
	cu_deviceptr pointers[STREAMS], free = begin();
	cu_stream idle = stream;
	uint32_t *words[STREAMS];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < STREAMS; i++) {
			pointers[i] = make();
			words[i] = hold_up();
			CHECK(free_it(pointers[i]) == CU_OK);
			CHECK(driver->cuStreamDestroy_v2(stream) == CU_OK);
		}
		for (int i = STREAMS - 1; i >= 0; i--) {
			CHECK(!is_given_back(pointers[i]));
			let_go(words[i]);
		}
		for (int i = 0; i < STREAMS; i++)
			CHECK(is_given_back(pointers[i]));
	}
	stream = idle;
	end_round(free);
}

static void *cycle(void *unused)
{
	cu_stream own = NULL;
	cu_deviceptr pointer = 0;
	struct buffers_stream call = {.async = driver->cuMemAllocAsync};

	CHECK(driver->cuDevicePrimaryCtxRetain(&(cu_context){NULL}, 0) == CU_OK);
	CHECK(driver->cuCtxSetCurrent(unused) == CU_OK);
	for (int i = 0; i < 40; i++) {
		CHECK(driver->cuStreamCreate(&own, CU_STREAM_NONBLOCKING) == CU_OK);
		call.stream = call.meant = own;
		CHECK(buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, (const void *)preloaded,
					  &pointer, BLOCK) == CU_OK);
		CHECK(buffers_free_async(driver->cuMemFreeAsync, pointer, own, own) == CU_OK);
		CHECK(driver->cuStreamDestroy_v2(own) == CU_OK);
	}
	return unused;
}

/* Whoever is first makes our streams; the others find them. */
static void in_threads(void)
{
	pthread_t threads[8];
	cu_context context = NULL;
	size_t before, after, total;
	cu_deviceptr pointer = begin();

	end_round(pointer);
	CHECK(driver->cuCtxGetCurrent(&context) == CU_OK);
	CHECK(driver->cuMemGetInfo_v2(&before, &total) == CU_OK);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, cycle, context) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(driver->cuCtxSynchronize() == CU_OK);
	CHECK(driver->cuMemGetInfo_v2(&after, &total) == CU_OK);
	CHECK(after == before);
}

/* --- where memory is short: stream-ordered memory would have waited for what its stream has freed --- */

#define ROOM (4 * BLOCK)

static cu_result make_large(cu_deviceptr *out_pointer)
{
	struct buffers_stream call = {
	    .async = driver->cuMemAllocAsync, .stream = stream, .meant = stream};

	return buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, (const void *)preloaded,
				   out_pointer, ROOM);
}

static void *let_go_later(void *word)
{
	poll(NULL, 0, 50);
	let_go(word);
	return word;
}

static void short_of_memory(void)
{
	cu_deviceptr pointer = 0, again = 16;
	struct gpushare_info info;
	pthread_t thread;
	uint32_t *word;
	int64_t began_ms;

	setenv("GPUSHARE_SIM_MEMORY", "8M", 1);
	setenv("GPUSHARE_TIMEOUT_MS", "2000", 1);
	driver = preloaded("x%i", NULL);
	CHECK(driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	CHECK(make_large(&pointer) == CU_OK);
	word = hold_up();
	CHECK(free_it(pointer) == CU_OK);
	CHECK(pthread_create(&thread, NULL, let_go_later, word) == 0);
	CHECK(make_large(&again) == CU_OK); /* which it has to wait for */
	CHECK(preloaded_finds("x1", &info) && preloaded_works(again, ROOM));
	CHECK(pthread_join(thread, NULL) == 0);
	/* and no longer than that; the index is used again */
	word = hold_up();
	CHECK(free_it(again) == CU_OK);
	began_ms = monotonic_ms();
	CHECK(make_large(&pointer) == CU_OUT_OF_MEMORY);
	CHECK(monotonic_ms() - began_ms >= 2000 && monotonic_ms() - began_ms < 3900);
	let_go(word);
	/* for memory that is there at once, too */
	CHECK(buffers_alloc(driver->cuMemAlloc_v2, (const void *)preloaded, &pointer, ROOM) ==
	      CU_OK);
	CHECK(preloaded_finds("x2", &info) && preloaded_free(pointer) == CU_OK);
}

/* --- where it can't be done apart: in the program's own stream --- */

static cu_result no_free(cu_deviceptr pointer, cu_stream behind)
{
	(void)pointer;
	(void)behind;
	return CU_INVALID_HANDLE;
}

/* What is known of our stream holds no more: its context has gone in a way that nobody saw. */
static void in_a_stream_that_is_gone(void)
{
	cu_deviceptr pointer = begin();

	CHECK(free_it(pointer) == CU_OK && is_gone(pointer));
	pointer = make();
	table->cuMemFreeAsync = no_free;
	CHECK(free_it(pointer) == CU_OK && is_gone(pointer));
}

static unsigned int records;

static cu_result count_record(cu_event event, cu_stream recorded)
{
	records++;
	return driver->cuEventRecord(event, recorded);
}

#define CAPTURE_IMPLICIT 906

/* The legacy stream while a blocking one is captured: the driver refuses the free, by its own word. */
static void while_another_captures(void)
{
	cu_deviceptr pointer = begin();
	struct gpushare_info info;
	cu_stream blocking = NULL;
	cu_graph graph = NULL;

	CHECK(driver->cuStreamCreate(&blocking, 0) == CU_OK);
	CHECK(driver->cuStreamBeginCapture_v2(blocking, (cu_capture_mode)CU_CAPTURE_RELAXED) ==
	      CU_OK);
	table->cuEventRecord = count_record;
	stream = NULL;
	CHECK((int)free_it(pointer) == CAPTURE_IMPLICIT && !records); /* as without us */
	CHECK(preloaded_finds("x0", &info) && preloaded_works(pointer, BLOCK));
	CHECK(driver->cuStreamEndCapture(blocking, &graph) == CU_STREAM_CAPTURE_INVALIDATED);
	CHECK(free_it(pointer) == CU_OK && is_gone(pointer));
	stream = blocking;
	pointer = make();
	CHECK(free_it(pointer) == CU_OK && records);
}

/* As ever where the driver has not what that takes. */
static void without_events(void)
{
	cu_deviceptr pointer = begin();

	table->cuStreamWaitEvent = NULL;
	CHECK(free_it(pointer) == CU_OK);
	CHECK(is_gone(pointer));
}

static void test_destroyed(void **state)
{
	(void)state;
	stage_play(destroyed, NULL);
	stage_play(held_up, NULL);
	stage_play(held_up_apart, NULL);
	stage_play(held_up_in_threads, NULL);
}

static void test_context_ends(void **state)
{
	(void)state;
	stage_play(reset, NULL);
	stage_play(destroyed_context, NULL);
}

static void test_without(void **state)
{
	(void)state;
	stage_play(without_events, NULL);
	stage_play(in_a_stream_that_is_gone, NULL);
	stage_play(while_another_captures, NULL);
}

static void test_many(void **state)
{
	(void)state;
	stage_play(held_up_all, NULL);
	stage_play(in_threads, NULL);
}

static void test_short_of_memory(void **state)
{
	(void)state;
	stage_play(short_of_memory, NULL);
}

int main(int argc, char **argv)
{
	(void)argc;
#define PLAY(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
	const struct CMUnitTest tests[] = {
	    PLAY(test_destroyed), PLAY(test_context_ends),    PLAY(test_without),
	    PLAY(test_many),	  PLAY(test_short_of_memory),
	};

	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
