/* SPDX-License-Identifier: MIT */
/* Test streams, captures and contexts of the simulated driver, beyond the facts that the contract
 * tests check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>

#include "sim_calls.h"

#define PER_THREAD ((cu_stream)(uintptr_t)2)
#define IMPLICIT 906
#define WRONG_THREAD 908
#define ILLEGAL_STATE 401

static unsigned int *word;

static cu_stream stream_new(unsigned int flags)
{
	cu_stream stream;

	CHECK(cu.cuStreamCreate(&stream, flags) == CU_OK);
	return stream;
}

static void hold_up(cu_stream stream, unsigned int value)
{
	void *pinned;

	if (!word) {
		CHECK(cu.cuMemHostAlloc(&pinned, 4096, 0) == CU_OK);
		word = pinned;
	}
	CHECK(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)word, value, CU_WAIT_GEQ) == CU_OK);
}

static cu_event recorded(cu_stream stream)
{
	cu_event event;

	CHECK(cu.cuEventCreate(&event, CU_EVENT_NO_TIMING) == CU_OK);
	CHECK(cu.cuEventRecord(event, stream) == CU_OK);
	return event;
}

/* A wait that was once seen as satisfied stays satisfied: a later change of the word has no
 * effect. */
static void body_row(void)
{
	start();
	cu_stream stream = stream_new(CU_STREAM_NONBLOCKING);
	hold_up(stream, 1);
	cu_event first = recorded(stream);
	hold_up(stream, 2);
	cu_event second = recorded(stream);
	CHECK(cu.cuEventQuery(first) == CU_NOT_READY && cu.cuEventQuery(second) == CU_NOT_READY);
	*word = 1;
	CHECK(cu.cuEventQuery(first) == CU_OK && cu.cuEventQuery(second) == CU_NOT_READY);
	*word = 0;
	CHECK(cu.cuEventQuery(first) == CU_OK && cu.cuEventQuery(second) == CU_NOT_READY);
	CHECK(cu.cuStreamDestroy_v2(stream) == CU_OK);
	CHECK(cu.cuEventQuery(second) == CU_NOT_READY);
	*word = 2;
	CHECK(cu.cuEventSynchronize(second) == CU_OK && cu.cuCtxSynchronize() == CU_OK);
	CHECK(cu.cuStreamSynchronize(stream) == CU_INVALID_HANDLE);
}

/* The legacy stream and the blocking streams order each other's work. A non-blocking stream is
 * ordered with no other stream. */
static void body_legacy(void)
{
	start();
	cu_stream blocking = stream_new(0), other = stream_new(0), apart = stream_new(1);
	hold_up(blocking, 1);
	CHECK(cu.cuEventQuery(recorded(NULL)) == CU_NOT_READY);
	CHECK(cu.cuEventQuery(recorded(other)) == CU_OK);
	CHECK(cu.cuEventQuery(recorded(PER_THREAD)) == CU_OK);
	*word = 1;
	CHECK(cu.cuStreamSynchronize(NULL) == CU_OK);
	hold_up(NULL, 2);
	CHECK(cu.cuEventQuery(recorded(blocking)) == CU_NOT_READY);
	CHECK(cu.cuEventQuery(recorded(PER_THREAD)) == CU_NOT_READY);
	CHECK(cu.cuEventQuery(recorded(apart)) == CU_OK);
	CHECK(cu.cuStreamSynchronize(apart) == CU_OK);
	*word = 2;
	CHECK(cu.cuStreamSynchronize(PER_THREAD) == CU_OK);
}

/* To a _ptsz twin, stream 0 is the calling thread's default stream. */
static void body_twin(void)
{
	cu_cuEventRecord_call *record;
	cu_cuStreamWaitValue32_v2_call *wait;

	start();
	cu_stream apart = stream_new(CU_STREAM_NONBLOCKING);
	hold_up(apart, 0);
	*(void **)&record = dlsym(library, "cuEventRecord_ptsz");
	*(void **)&wait = dlsym(library, "cuStreamWaitValue32_v2_ptsz");
	CHECK(record && wait);
	CHECK(wait(NULL, (uintptr_t)word, 1, CU_WAIT_GEQ) == CU_OK);
	cu_event own = recorded(apart), legacy_side = recorded(PER_THREAD);
	CHECK(cu.cuEventQuery(own) == CU_OK && cu.cuEventQuery(legacy_side) == CU_NOT_READY);
	CHECK(record(own, NULL) == CU_OK && cu.cuEventQuery(own) == CU_NOT_READY);
	*word = 1;
	CHECK(cu.cuEventQuery(own) == CU_OK);
}

static void test_streams(void **state)
{
	IN_CHILD(body_row);
	IN_CHILD(body_legacy);
	IN_CHILD(body_twin);
}

static void *end_capture(void *stream)
{
	cu_context context;
	cu_graph graph;

	CHECK(cu.cuDevicePrimaryCtxRetain(&context, 0) == CU_OK);
	CHECK(cu.cuCtxSetCurrent(context) == CU_OK);
	return (void *)(intptr_t)cu.cuStreamEndCapture(stream, &graph);
}

static void body_capture(void)
{
	char bytes[16] = {1}, back[16];
	cu_deviceptr pointer, inside;
	pthread_t thread;
	cu_graph graph;
	void *answer;

	start();
	cu_stream stream = stream_new(0);
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OK);
	CHECK(cu.cuMemsetD8_v2(pointer, 7, MIB) == CU_OK);
	CHECK((int)cu.cuStreamEndCapture(stream, &graph) == ILLEGAL_STATE);
	CHECK(cu.cuStreamBeginCapture_v2(stream, (cu_capture_mode)CU_CAPTURE_GLOBAL) == CU_OK);
	CHECK((int)cu.cuStreamBeginCapture_v2(stream, (cu_capture_mode)0) == ILLEGAL_STATE);
	CHECK(pthread_create(&thread, NULL, end_capture, stream) == 0);
	CHECK(pthread_join(thread, &answer) == 0 && (intptr_t)answer == WRONG_THREAD);
	/* the copy is recorded, not run */
	CHECK(cu.cuMemcpyHtoDAsync_v2(pointer, bytes, sizeof(bytes), stream) == CU_OK);
	CHECK(cu.cuMemcpyDtoH_v2(back, pointer, sizeof(back)) == CU_OK && back[0] == 7);
	CHECK(cu.cuMemAllocAsync(&inside, MIB, stream) == CU_OK);
	CHECK(cu.cuMemcpyDtoH_v2(back, inside, sizeof(back)) == CU_INVALID_VALUE);
	CHECK(cu.cuMemFreeAsync(pointer, stream) == CU_INVALID_VALUE);
	CHECK(cu.cuStreamEndCapture(stream, &graph) == CU_OK);
	CHECK(cu.cuGraphDestroy(graph) == CU_OK && cu.cuGraphDestroy(graph) == CU_INVALID_VALUE);
	CHECK(cu.cuMemFree_v2(pointer) == CU_OK);
}

static void test_capture(void **state)
{
	IN_CHILD(body_capture);
}

/* A context's end frees each kind of memory that was made in it. Memory of another context stays,
 * and so does memory from a pool. */
static void body_context(void)
{
	cu_deviceptr kept, plain, ordered, managed;
	size_t free_bytes, total;
	cu_context context, now;
	cu_stream stream;
	void *pinned;

	start();
	CHECK(cu.cuMemAlloc_v2(&kept, 32 * MIB) == CU_OK);
	CHECK(cu.cuCtxCreate_v2(&context, 0, 0) == CU_OK);
	stream = stream_new(0);
	CHECK(cu.cuMemAlloc_v2(&plain, 16 * MIB) == CU_OK);
	CHECK(cu.cuMemAllocAsync(&ordered, 16 * MIB, stream) == CU_OK);
	CHECK(cu.cuMemAllocManaged(&managed, MIB, CU_MANAGED_GLOBAL) == CU_OK);
	CHECK(cu.cuMemHostAlloc(&pinned, MIB, 0) == CU_OK);
	CHECK(cu.cuPointerGetAttribute(&now, (cu_pointer_attribute)CU_ATTRIBUTE_CONTEXT, plain) ==
		  CU_OK &&
	      now == context);
	CHECK(cu.cuMemAlloc_v2(&plain, MIB) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuCtxDestroy_v2(context) == CU_OK);
	CHECK(cu.cuCtxDestroy_v2(context) == CU_INVALID_CONTEXT);
	CHECK(cu.cuCtxSetCurrent(context) == CU_INVALID_CONTEXT);
	CHECK(cu.cuMemGetInfo_v2(&free_bytes, &total) == CU_OK && free_bytes == 16 * MIB);
	CHECK(cu.cuMemFreeAsync(ordered, NULL) == CU_OK);
	CHECK(cu.cuStreamSynchronize(stream) == CU_INVALID_HANDLE);
	CHECK(cu.cuMemFree_v2(managed) == CU_INVALID_VALUE);
	CHECK(cu.cuMemFreeHost(pinned) == CU_INVALID_VALUE);
	CHECK(cu.cuMemFree_v2(kept) == CU_OK);
	CHECK(cu.cuCtxGetCurrent(&now) == CU_OK);
	CHECK(cu.cuCtxDestroy_v2(now) == CU_INVALID_CONTEXT); /* a primary context */
}

static void test_context(void **state)
{
	IN_CHILD(body_context, "GPUSHARE_SIM_MEMORY=64M");
}

static void body_twin_faults(void)
{
	cu_deviceptr pointer;

	start();
	CHECK(cu.cuMemAllocAsync(&pointer, MIB, NULL) == CU_OK);
	CHECK(cu.cuMemAllocAsync_ptsz(&pointer, MIB, NULL) == CU_OUT_OF_MEMORY);
	CHECK(cu.cuMemFreeAsync(pointer, NULL) == CU_NOT_PERMITTED);
	CHECK(cu.cuMemFreeAsync_ptsz(pointer, NULL) == CU_NOT_PERMITTED);
	CHECK(cu.cuMemFreeAsync_ptsz(pointer, NULL) == CU_OK);
}

static void test_faults_of_twins(void **state)
{
	IN_CHILD(body_twin_faults,
		 "GPUSHARE_SIM_FAIL=cuMemAllocAsync_ptsz:1:1:2,cuMemFreeAsync:1:1:800");
}

static void body_log(void)
{
	static const char *const wanted[] = {
	    "cuMemAllocAsync",
	    "cuMemAllocAsync_ptsz",
	    "cuMemAllocFromPoolAsync",
	    "cuMemAllocFromPoolAsync_ptsz",
	    "cuMemFreeAsync",
	    "cuMemFreeAsync_ptsz",
	    "cuDevicePrimaryCtxReset_v2",
	};
	cu_deviceptr pointer[4];
	char line[160], want[160];
	cu_mem_pool pool;

	start();
	CHECK(cu.cuDeviceGetDefaultMemPool(&pool, 0) == CU_OK);
	CHECK(cu.cuMemAllocAsync(&pointer[0], MIB, NULL) == CU_OK);
	CHECK(cu.cuMemAllocAsync_ptsz(&pointer[1], MIB, NULL) == CU_OK);
	CHECK(cu.cuMemAllocFromPoolAsync(&pointer[2], MIB, pool, NULL) == CU_OK);
	CHECK(cu.cuMemAllocFromPoolAsync_ptsz(&pointer[3], MIB, pool, NULL) == CU_OK);
	CHECK(cu.cuMemFreeAsync(pointer[0], NULL) == CU_OK);
	CHECK(cu.cuMemFreeAsync_ptsz(pointer[1], NULL) == CU_OK);
	CHECK(cu.cuDevicePrimaryCtxReset_v2(0) == CU_OK);
	FILE *log = fopen(getenv("GPUSHARE_SIM_LOG"), "r");
	CHECK(log);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		snprintf(want, sizeof(want), "%d %s 0 0x", (int)getpid(), wanted[i]);
		CHECK(fgets(line, sizeof(line), log));
		CHECK(strncmp(line, want, strlen(want)) == 0);
	}
	fclose(log);
}

static void test_log(void **state)
{
	char file[] = "/tmp/gpushare-sim-test-XXXXXX", setting[64];
	int fd = mkstemp(file);

	assert_true(fd >= 0);
	close(fd);
	snprintf(setting, sizeof(setting), "GPUSHARE_SIM_LOG=%s", file);
	IN_CHILD(body_log, setting);
	unlink(file);
}

static void body_old(void)
{
	int version;

	load("old/libcuda.so.1");
	CHECK(!cu.cuGetProcAddress_v2 && cu.cuGetProcAddress);
	CHECK(cu.cuDriverGetVersion(&version) == CU_OK && version == 11080);
}

static void body_ancient(void)
{
	int version;

	load("ancient/libcuda.so.1");
	CHECK(!cu.cuGetProcAddress_v2 && !cu.cuGetProcAddress && cu.cuMemAllocAsync_ptsz);
	CHECK(cu.cuDriverGetVersion(&version) == CU_OK && version == 11020);
}

/* Streams are assigned to the queues in turn. Work is blocked behind another stream's wait if both
 * streams share a queue. */
static void body_connections(void)
{
	cu_stream held, other[3];
	void *pinned;

	start();
	CHECK(cu.cuMemHostAlloc(&pinned, 4096, 0) == CU_OK);
	uint64_t *words = memset(pinned, 0, 4096);
	held = stream_new(CU_STREAM_NONBLOCKING);
	CHECK(cu.cuStreamWaitValue64_v2(held, (uintptr_t)words, 1, CU_WAIT_GEQ) == CU_OK);
	for (int i = 0; i < 3; i++) {
		other[i] = stream_new(CU_STREAM_NONBLOCKING);
		CHECK(cu.cuStreamWriteValue64_v2(other[i], (uintptr_t)&words[i + 1], 1, 0) ==
		      CU_OK);
	}
	CHECK(words[1] && words[2] && !words[3]);
	words[0] = 1;
	CHECK(cu.cuStreamSynchronize(other[2]) == CU_OK && words[3]);
}

static void *end_well(void *unused)
{
	usleep(100000);
	_exit(0);
	return unused;
}

/* A second cuMemFreeAsync of cuMemAlloc memory is accepted. A later synchronization of that stream
 * or of the context never returns. */
static void freed_twice(bool held_up_first)
{
	cu_stream stream, beside;
	cu_deviceptr pointer;
	pthread_t thread;

	start();
	stream = stream_new(CU_STREAM_NONBLOCKING);
	beside = stream_new(CU_STREAM_NONBLOCKING);
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OK);
	if (held_up_first)
		hold_up(stream, 1);
	for (int i = 0; i < 3; i++)
		CHECK(cu.cuMemFreeAsync(pointer, i == 1 ? beside : stream) == CU_OK);
	CHECK(cu.cuMemGetAddressRange_v2(NULL, NULL, pointer) == CU_OK);
	if (held_up_first)
		*word = 1;
	CHECK(cu.cuStreamSynchronize(beside) == CU_OK);
	CHECK(pthread_create(&thread, NULL, end_well, NULL) == 0);
	cu.cuCtxSynchronize();
	CHECK(false);
}

static void body_twice(void)
{
	freed_twice(false);
}

static void body_twice_held_up(void)
{
	freed_twice(true);
}

/* cuMemFree may follow cuMemFreeAsync of cuMemAlloc memory; a second free of pool memory is
 * refused. Synchronization returns in both cases. */
static void body_twice_well(void)
{
	cu_deviceptr pointer;

	start();
	CHECK(cu.cuMemAlloc_v2(&pointer, MIB) == CU_OK);
	CHECK(cu.cuMemFreeAsync(pointer, NULL) == CU_OK && cu.cuMemFree_v2(pointer) == CU_OK);
	CHECK(cu.cuMemFree_v2(pointer) == CU_INVALID_VALUE);
	CHECK(cu.cuCtxSynchronize() == CU_OK);
	CHECK(cu.cuMemAllocAsync(&pointer, MIB, NULL) == CU_OK);
	hold_up(NULL, 1);
	CHECK(cu.cuMemFreeAsync(pointer, NULL) == CU_OK);
	CHECK(cu.cuMemFreeAsync(pointer, NULL) == CU_INVALID_VALUE);
	CHECK(cu.cuMemFree_v2(pointer) == CU_INVALID_VALUE);
	*word = 1;
	CHECK(cu.cuCtxSynchronize() == CU_OK);
}

static void test_twice(void **state)
{
	IN_CHILD(body_twice);
	IN_CHILD(body_twice_held_up);
	IN_CHILD(body_twice_well);
}

static void test_connections(void **state)
{
	IN_CHILD(body_connections, "GPUSHARE_SIM_CONNECTIONS=3");
}

static void test_older_drivers(void **state)
{
	IN_CHILD(body_old);
	IN_CHILD(body_ancient);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_streams),	  cmocka_unit_test(test_capture),
	    cmocka_unit_test(test_context),	  cmocka_unit_test(test_faults_of_twins),
	    cmocka_unit_test(test_connections),	  cmocka_unit_test(test_log),
	    cmocka_unit_test(test_older_drivers), cmocka_unit_test(test_twice),
	};

	return cmocka_run_group_tests_name("sim order", tests, NULL, NULL);
}
