/* SPDX-License-Identifier: MIT */
/* Named stream-ordered memory, which the shim makes as cuMemAlloc memory. It is freed even if
 * its stream is destroyed at once. */
#include "unit.h"

#include "preload/shim_apart.h"
#include "preload/shim_freed.h"
#include "streamed.h"

#define PER_THREAD ((cu_stream)(uintptr_t)2) /* CU_STREAM_PER_THREAD */

static void destroyed(void)
{
	cu_deviceptr pointer = streamed_begin();
	struct gpushare_info info;

	CHECK(preloaded_finds("x0", &info) && info.backing == GPUSHARE_BACKING_IPC);
	CHECK(streamed_free(pointer) == CU_OK && !preloaded_finds("x0", &info));
	CHECK(streamed.driver->cuStreamDestroy_v2(streamed.stream) == CU_OK);
	CHECK(streamed_is_gone(pointer));
}

/* The memory is freed after the work of its own stream. */
static void held_up(void)
{
	cu_deviceptr pointer = streamed_begin();
	uint32_t *word = streamed_hold_up();

	CHECK(streamed_free(pointer) == CU_OK && streamed_free(pointer) == CU_INVALID_VALUE);
	CHECK(streamed.driver->cuStreamDestroy_v2(streamed.stream) == CU_OK);
	CHECK(preloaded_works(pointer, BLOCK)); /* it stays for the stream's work */
	buffers_sweep();
	CHECK(preloaded_works(pointer, BLOCK));
	streamed_let_go(word);
	buffers_sweep();
	CHECK(streamed_is_gone(pointer));
}

/* A second free must not reach the driver: that would accept it, as this is cuMemAlloc memory,
 * and no synchronization would return after it. */
static void freed_again(void)
{
	cu_deviceptr pointer = streamed_begin();

	CHECK(streamed_free(pointer) == CU_OK); /* at once, as its stream is idle */
	CHECK(streamed_free(pointer) == CU_INVALID_VALUE);
	CHECK(buffers_free(streamed.driver->cuMemFree_v2, pointer) == CU_INVALID_VALUE);
	CHECK(streamed.driver->cuCtxSynchronize() == CU_OK);
	CHECK(streamed_is_gone(pointer) && streamed_free(pointer) == CU_INVALID_VALUE);
}

/* The address may be another allocation's by then: the next primary context has the same
 * addresses. */
static void freed_address_again(void)
{
	cu_deviceptr pointer = streamed_begin(), other = 0;
	cu_context context = NULL;

	CHECK(streamed_free(pointer) == CU_OK);
	CHECK(buffers_primary_reset(streamed.driver->cuDevicePrimaryCtxReset_v2, 0) == CU_OK);
	CHECK(streamed.driver->cuDevicePrimaryCtxRetain(&context, 0) == CU_OK);
	CHECK(streamed.driver->cuCtxSetCurrent(context) == CU_OK);
	CHECK(streamed.driver->cuStreamCreate(&streamed.stream, CU_STREAM_NONBLOCKING) == CU_OK);
	CHECK(streamed.driver->cuMemAlloc_v2(&other, BLOCK) == CU_OK && other == pointer);
	CHECK(freed_maybe(other));
	CHECK(streamed_free(other) == CU_OK && !freed_maybe(other) && streamed_is_gone(other));
}

/* If the shim can't have a stream of its own, it frees the memory in the program's stream. */
static void freed_again_in_its_stream(void)
{
	cu_deviceptr pointer = streamed_begin();

	streamed.table->cuEventCreate = NULL;
	CHECK(streamed_free(pointer) == CU_OK && streamed_free(pointer) == CU_INVALID_VALUE);
	CHECK(streamed.driver->cuCtxSynchronize() == CU_OK && streamed_is_gone(pointer));
}

/* Return true if the memory is freed, by calls of the program that wait for no stream. */
static bool is_given_back(cu_deviceptr pointer)
{
	size_t left, total, size;
	cu_deviceptr base;

	buffers_sweep();
	CHECK(streamed.driver->cuMemGetInfo_v2(&left, &total) ==
	      CU_OK); /* here the driver looks which frees are done */
	return streamed.driver->cuMemGetAddressRange_v2(&base, &size, pointer) != CU_OK;
}

/* Return true if the memory is freed soon: the GPU continues a stream in its own time. */
static bool comes_back(cu_deviceptr pointer)
{
	for (int left_ms = 2000; left_ms && !is_given_back(pointer); left_ms--)
		poll(NULL, 0, 1);
	return is_given_back(pointer);
}

/* A free doesn't wait for other streams, whether their work is done or held up as well. */
static void held_up_apart(void)
{
	enum { STREAMS = 4 };
	cu_deviceptr pointers[STREAMS], free = streamed_begin();
	cu_stream idle = streamed.stream;
	uint32_t *words[STREAMS];

	for (int i = 0; i < STREAMS; i++) {
		pointers[i] = streamed_make();
		words[i] = streamed_hold_up();
		CHECK(streamed_free(pointers[i]) == CU_OK);
	}
	streamed.stream = idle;
	CHECK(streamed_free(free) == CU_OK && is_given_back(free));
	for (int i = STREAMS - 1; i >= 0; i--) {
		CHECK(!is_given_back(pointers[i]));
		streamed_let_go(words[i]);
		CHECK(is_given_back(pointers[i]));
	}
}

struct in_thread {
	cu_context context;
	cu_deviceptr pointer;
	uint32_t *word;
};

static void *free_in_own_thread(void *user)
{
	struct in_thread *freed = user;

	CHECK(streamed.driver->cuCtxSetCurrent(freed->context) == CU_OK);
	freed->pointer = streamed_make_here();
	freed->word = streamed_hold_up();
	CHECK(streamed_free(freed->pointer) == CU_OK);
	return NULL;
}

/* CU_STREAM_PER_THREAD is the same handle in each thread, and another stream. */
static void held_up_in_threads(void)
{
	struct in_thread first, second;
	cu_context context;
	pthread_t thread;

	streamed_begin();
	streamed.stream = PER_THREAD;
	CHECK(streamed.driver->cuCtxGetCurrent(&context) == CU_OK);
	first.context = second.context = context;
	CHECK(!pthread_create(&thread, NULL, free_in_own_thread, &first));
	CHECK(!pthread_join(thread, NULL));
	free_in_own_thread(&second);
	CHECK(!is_given_back(first.pointer) && !is_given_back(second.pointer));
	streamed_let_go(second.word);
	CHECK(is_given_back(second.pointer) && !is_given_back(first.pointer));
	streamed_let_go(first.word);
	CHECK(is_given_back(first.pointer));
}

/* The shim's streams end with their context. The next context has the same handle, and other
 * streams. */
static void end_round(cu_deviceptr pointer)
{
	CHECK(streamed_free(pointer) == CU_OK);
	CHECK(streamed.driver->cuStreamDestroy_v2(streamed.stream) == CU_OK);
	CHECK(streamed_is_gone(pointer));
}

static void reset(void)
{
	cu_context context = NULL, again = NULL;

	end_round(streamed_begin());
	CHECK(streamed.driver->cuCtxGetCurrent(&context) == CU_OK);
	for (int i = 0; i < 3; i++) {
		CHECK(buffers_primary_reset(streamed.driver->cuDevicePrimaryCtxReset_v2, 0) ==
		      CU_OK);
		CHECK(streamed.driver->cuDevicePrimaryCtxRetain(&again, 0) == CU_OK &&
		      again == context);
		CHECK(streamed.driver->cuCtxSetCurrent(again) == CU_OK);
		end_round(streamed_make());
	}
}

static void destroyed_context(void)
{
	cu_context context = NULL;

	end_round(streamed_begin());
	for (int i = 0; i < 40; i++) { /* many contexts, one after the other */
		CHECK(streamed.driver->cuCtxCreate_v2(&context, 0, 0) == CU_OK);
		end_round(streamed_make());
		CHECK(buffers_context_destroy(streamed.driver->cuCtxDestroy_v2, context) == CU_OK);
	}
	end_round(streamed_make());
}

/* Many destroyed streams are held up, and continue in the reverse order. */
static void held_up_all(void)
{
	enum { STREAMS = 11 };
	cu_deviceptr pointers[STREAMS], free = streamed_begin();
	cu_stream idle = streamed.stream;
	uint32_t *words[STREAMS];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < STREAMS; i++) {
			pointers[i] = streamed_make();
			words[i] = streamed_hold_up();
			CHECK(streamed_free(pointers[i]) == CU_OK);
			CHECK(streamed.driver->cuStreamDestroy_v2(streamed.stream) == CU_OK);
		}
		for (int i = STREAMS - 1; i >= 0; i--) {
			CHECK(!is_given_back(pointers[i]));
			streamed_let_go(words[i]);
		}
		for (int i = 0; i < STREAMS; i++)
			CHECK(is_given_back(pointers[i]));
	}
	streamed.stream = idle;
	end_round(free);
}

/* More frees are held up than one call asks about. A free behind another stream ends all the
 * same. */
static void held_up_for_long(void)
{
	enum { STREAMS = 30, CALLS = 6 };
	cu_deviceptr pointers[STREAMS], free = streamed_begin();
	cu_stream idle = streamed.stream;
	uint32_t *words[STREAMS];
	int calls = 0;

	for (int i = 0; i < STREAMS; i++) {
		pointers[i] = streamed_make();
		words[i] = streamed_hold_up();
		CHECK(streamed_free(pointers[i]) == CU_OK);
	}
	for (int i = STREAMS - 1; i > 0; i -= 7) {
		streamed_let_go(words[i]);
		for (calls = 0; calls < CALLS && !is_given_back(pointers[i]); calls++)
			CHECK(!is_given_back(pointers[0]));
		CHECK(is_given_back(pointers[i]));
	}
	streamed.stream = idle; /* an idle stream: freed at once */
	CHECK(streamed_free(free) == CU_OK);
	for (int i = 0; i < STREAMS; i++)
		streamed_let_go(words[i]);
	CHECK(streamed_is_gone(free));
}

/* Return true once the GPU has written the word, for which it needs no call. */
static bool word_is_written(const uint64_t *word)
{
	for (int left_ms = 2000; left_ms; left_ms--) {
		if (__atomic_load_n(word, __ATOMIC_ACQUIRE))
			return true;
		poll(NULL, 0, 1);
	}
	return false;
}

/* Streams that share a hardware queue stall together, so a wait of the shim's stream could stop
 * `writer`. Which ones share depends only on how many streams were made before. */
static void let_go_by_another_stream(void)
{
	cu_stream writer = NULL, unused = NULL;
	cu_deviceptr pointer;
	uint64_t *word;

	setenv("GPUSHARE_SIM_CONNECTIONS", "8", 1);
	pointer = streamed_begin();
	for (int before = 0; before < 8; before++) {
		CHECK(streamed.driver->cuStreamCreate(&writer, CU_STREAM_NONBLOCKING) == CU_OK);
		pointer = streamed_make();
		word = (uint64_t *)streamed_hold_up();
		for (int i = 0; i < before; i++)
			CHECK(streamed.driver->cuStreamCreate(&unused, CU_STREAM_NONBLOCKING) ==
			      CU_OK);
		CHECK(streamed_free(pointer) == CU_OK);
		CHECK(streamed.driver->cuStreamWriteValue64_v2(writer, (uintptr_t)word, 1, 0) ==
		      CU_OK);
		CHECK(word_is_written(word));
		CHECK(comes_back(pointer));
	}
}

static void *cycle(void *unused)
{
	cu_stream own = NULL;
	cu_deviceptr pointer = 0;
	struct buffers_stream call = {.async = streamed.driver->cuMemAllocAsync};

	CHECK(streamed.driver->cuDevicePrimaryCtxRetain(&(cu_context){NULL}, 0) == CU_OK);
	CHECK(streamed.driver->cuCtxSetCurrent(unused) == CU_OK);
	for (int i = 0; i < 40; i++) {
		CHECK(streamed.driver->cuStreamCreate(&own, CU_STREAM_NONBLOCKING) == CU_OK);
		call.stream = call.meant = own;
		CHECK(buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, (const void *)preloaded,
					  &pointer, BLOCK) == CU_OK);
		CHECK(buffers_free_async(streamed.driver->cuMemFreeAsync, pointer, own, own) ==
		      CU_OK);
		CHECK(streamed.driver->cuStreamDestroy_v2(own) == CU_OK);
	}
	return unused;
}

/* The first thread makes the shim's stream; the others find it. */
static void in_threads(void)
{
	pthread_t threads[8];
	cu_context context = NULL;
	size_t before, after, total;
	cu_deviceptr pointer = streamed_begin();

	end_round(pointer);
	CHECK(streamed.driver->cuCtxGetCurrent(&context) == CU_OK);
	CHECK(streamed.driver->cuMemGetInfo_v2(&before, &total) == CU_OK);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_create(&threads[i], NULL, cycle, context) == 0);
	for (int i = 0; i < 8; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);
	CHECK(streamed.driver->cuCtxSynchronize() == CU_OK);
	CHECK(streamed.driver->cuMemGetInfo_v2(&after, &total) == CU_OK);
	CHECK(after == before);
}

static unsigned int refused;

/* Refuse the allocation. Act as another thread that frees memory in the shim's stream, which
 * makes room for less than was asked for. */
static cu_result refuse(cu_deviceptr *out, size_t size)
{
	cu_context context = NULL;

	CHECK(++refused < 100);
	CHECK(streamed.driver->cuCtxGetCurrent(&context) == CU_OK);
	CHECK(streamed.driver->cuMemAllocAsync(out, BLOCK, streamed.stream) == CU_OK);
	CHECK(streamed.driver->cuStreamSynchronize(streamed.stream) == CU_OK);
	CHECK(apart_free(streamed.driver, context, *out) == CU_OK);
	return CU_OUT_OF_MEMORY;
}

static void room_that_is_made_again_and_again(void)
{
	cu_deviceptr pointer = streamed_begin();
	struct gpushare_info info;

	streamed.table->cuMemAlloc_v2 = refuse;
	streamed_make_here();
	CHECK(refused == 2 && !preloaded_finds("x1", &info));
	end_round(pointer);
}

STAGE_MAIN(SCENE(destroyed), SCENE(held_up), SCENE(freed_again), SCENE(freed_address_again),
	   SCENE(freed_again_in_its_stream), SCENE(held_up_apart),
	   SCENE(held_up_in_threads, NULL, stage_needs_registry), SCENE(reset),
	   SCENE(destroyed_context), SCENE(held_up_all), SCENE(held_up_for_long),
	   SCENE(let_go_by_another_stream), SCENE(in_threads, NULL, stage_needs_registry),
	   SCENE(room_that_is_made_again_and_again))
