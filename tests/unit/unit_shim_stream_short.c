/* SPDX-License-Identifier: MIT */
/* Named stream-ordered memory if something is missing: memory, driver calls, or a stream that is
 * not captured. */
#include "unit.h"

#include "base/monotonic.h"
#include "streamed.h"

/* --- memory is short: stream-ordered memory would wait for what its stream has freed --- */

#define ROOM (4 * BLOCK)

static cu_result make_large(cu_deviceptr *out_pointer)
{
	struct buffers_stream call = {.async = streamed.driver->cuMemAllocAsync,
				      .stream = streamed.stream,
				      .meant = streamed.stream};

	return buffers_alloc_async(&call, RULES_API_cuMemAllocAsync, (const void *)preloaded,
				   out_pointer, ROOM);
}

static void *let_go_later(void *word)
{
	poll(NULL, 0, 50);
	streamed_let_go(word);
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
	streamed.driver = preloaded("x%i", NULL);
	CHECK(streamed.driver->cuStreamCreate(&streamed.stream, CU_STREAM_NONBLOCKING) == CU_OK);
	CHECK(make_large(&pointer) == CU_OK);
	word = streamed_hold_up();
	CHECK(streamed_free(pointer) == CU_OK);
	CHECK(pthread_create(&thread, NULL, let_go_later, word) == 0);
	CHECK(make_large(&again) == CU_OK); /* it has to wait for that free */
	CHECK(preloaded_finds("x1", &info) && preloaded_works(again, ROOM));
	CHECK(pthread_join(thread, NULL) == 0);
	/* it waits no longer than the timeout; the index is used again */
	word = streamed_hold_up();
	CHECK(streamed_free(again) == CU_OK);
	began_ms = monotonic_ms();
	CHECK(make_large(&pointer) == CU_OUT_OF_MEMORY);
	CHECK(monotonic_ms() - began_ms >= 2000 && monotonic_ms() - began_ms < 3900);
	streamed_let_go(word);
	/* cuMemAlloc memory is waited for, too */
	CHECK(buffers_alloc(streamed.driver->cuMemAlloc_v2, (const void *)preloaded, &pointer,
			    ROOM) == CU_OK);
	CHECK(preloaded_finds("x2", &info) && preloaded_free(pointer) == CU_OK);
}

/* --- the shim's own stream can't be used: the memory is freed in the program's stream --- */

static cu_result no_free(cu_deviceptr pointer, cu_stream behind)
{
	return CU_INVALID_HANDLE;
}

/* The shim's stream is stale: its context has ended without the shim's notice. */
static void in_a_stream_that_is_gone(void)
{
	cu_deviceptr pointer = streamed_begin();

	CHECK(streamed_free(pointer) == CU_OK && streamed_is_gone(pointer));
	pointer = streamed_make();
	streamed.table->cuMemFreeAsync = no_free;
	CHECK(streamed_free(pointer) == CU_OK && streamed_is_gone(pointer));
}

static unsigned int records;

static cu_result count_record(cu_event event, cu_stream recorded)
{
	records++;
	return streamed.driver->cuEventRecord(event, recorded);
}

#define CAPTURE_IMPLICIT 906

/* A free in the legacy stream while a blocking stream is captured: the program gets the driver's
 * own error. */
static void while_another_captures(void)
{
	cu_deviceptr pointer = streamed_begin();
	struct gpushare_info info;
	cu_stream blocking = NULL;
	cu_graph graph = NULL;

	CHECK(streamed.driver->cuStreamCreate(&blocking, 0) == CU_OK);
	CHECK(streamed.driver->cuStreamBeginCapture_v2(
		  blocking, (cu_capture_mode)CU_CAPTURE_RELAXED) == CU_OK);
	streamed.table->cuEventRecord = count_record;
	streamed.stream = NULL;
	CHECK((int)streamed_free(pointer) == CAPTURE_IMPLICIT && !records); /* as without us */
	CHECK(preloaded_finds("x0", &info) && preloaded_works(pointer, BLOCK));
	CHECK(streamed.driver->cuStreamEndCapture(blocking, &graph) ==
	      CU_STREAM_CAPTURE_INVALIDATED);
	CHECK(streamed_free(pointer) == CU_OK && streamed_is_gone(pointer));
	streamed.stream = blocking;
	pointer = streamed_make();
	CHECK(streamed_free(pointer) == CU_OK && records);
}

/* Without cuStreamWaitEvent the memory is freed all the same. */
static void without_events(void)
{
	cu_deviceptr pointer = streamed_begin();

	streamed.table->cuStreamWaitEvent = NULL;
	CHECK(streamed_free(pointer) == CU_OK);
	CHECK(streamed_is_gone(pointer));
}

STAGE_MAIN(SCENE(without_events), SCENE(in_a_stream_that_is_gone), SCENE(while_another_captures),
	   SCENE(short_of_memory))
