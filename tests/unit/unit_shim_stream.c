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

#include <pthread.h>

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
}

int main(int argc, char **argv)
{
	(void)argc;
#define PLAY(test) cmocka_unit_test_setup_teardown(test, stage_open, stage_close)
	const struct CMUnitTest tests[] = {
	    PLAY(test_destroyed),
	    PLAY(test_context_ends),
	    PLAY(test_without),
	};

	stage_init(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
