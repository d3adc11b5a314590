/* SPDX-License-Identifier: MIT */
/*
 * The driver's behaviour that deferred frees build on: waiting without a free, freeing without a
 * wait, and what remains of the memory then.
 */
#include "contract.h"

/* More than other programs are likely to allocate meanwhile: the cases compare free memory. */
#define SIZE ((size_t)128 << 20)
#define HELD_UP_US 20000

static const struct driver *driver;
static atomic_uint *word; /* pinned; the stream waits for it */
static atomic_bool released;

/* Queue work that is blocked until `*word` is 1. */
static cu_event held_up(void)
{
	cu_stream stream = NULL;
	cu_event event = NULL;
	void *pinned = NULL;

	if (!driver->cuStreamWaitValue32_v2)
		contract_skip("this driver has no cuStreamWaitValue32_v2");
	EXPECT(CU_OK, driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	EXPECT(CU_OK, driver->cuMemHostAlloc(&pinned, 4096, CU_HOST_ALLOC_PORTABLE));
	word = pinned;
	atomic_store(word, 0);
	EXPECT(CU_OK, driver->cuStreamWaitValue32_v2(stream, (uintptr_t)word, 1, CU_WAIT_GEQ));
	EXPECT(CU_OK, driver->cuEventCreate(&event, CU_EVENT_NO_TIMING));
	EXPECT(CU_OK, driver->cuEventRecord(event, stream));
	return event;
}

static size_t room(void)
{
	size_t left = 0, total = 0;

	EXPECT(CU_OK, driver->cuMemGetInfo_v2(&left, &total));
	return left;
}

static void *release_later(void *unused)
{
	usleep(HELD_UP_US); /* a call that doesn't wait would return within this time */
	atomic_store(&released, true);
	atomic_store(word, 1);
	return unused;
}

/* Freeing any memory waits, even a few bytes of a block that stays in use. */
static void small_free(int peer)
{
	cu_deviceptr neighbour, pointer;
	pthread_t thread;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemAlloc_v2(&neighbour, 1));
	held_up();
	EXPECT(CU_OK, driver->cuMemAlloc_v2(&pointer, 1));
	CHECK(pthread_create(&thread, NULL, release_later, NULL) == 0);
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	CHECK(atomic_load(&released));
	CHECK(pthread_join(thread, NULL) == 0);
}

/* Memory is back once the stream in which it was freed is synchronized, though other work goes
 * on. */
static void free_apart(int peer)
{
	cu_stream apart = NULL;
	cu_deviceptr pointer;
	cu_event event, reached;
	size_t before;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	event = held_up();
	before = room();
	EXPECT(CU_OK, driver->cuStreamCreate(&apart, CU_STREAM_NONBLOCKING));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, apart));
	reached = contract_recorded(driver, apart);
	for (int left_ms = 10000; left_ms && driver->cuEventQuery(reached) != CU_OK; left_ms--)
		usleep(1000);
	EXPECT(CU_OK, driver->cuEventQuery(reached));
	EXPECT(CU_OK, driver->cuStreamSynchronize(apart));
	CHECK(room() >= before + SIZE / 2);
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	atomic_store(word, 1);
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

/* If the stream is destroyed before its context is synchronized, the memory is not freed. */
static void free_in_what_goes(int peer)
{
	cu_stream apart = NULL;
	cu_deviceptr pointer, base = 0;
	size_t size = 0;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuStreamCreate(&apart, CU_STREAM_NONBLOCKING));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, apart));
	EXPECT(CU_OK, driver->cuStreamDestroy_v2(apart));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_OK, driver->cuMemGetAddressRange_v2(&base, &size, pointer));
	CHECK(base == pointer && size == SIZE);
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

static void owner(int peer)
{
	cu_deviceptr pointer, other;
	cu_ipc_mem_handle handle;
	size_t before;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuIpcGetMemHandle(&handle, pointer));
	contract_send(peer, &handle, sizeof(handle));
	contract_hear(peer);
	/* the memory is still allocated: a new allocation gets another address */
	other = contract_filled(SIZE, 2);
	CHECK(other != pointer);
	contract_tell(peer);
	contract_hear(peer);
	before = room();
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	CHECK(room() >= before + SIZE / 2);
	CHECK(contract_holds(other, SIZE, 2));
}

static void importer(int peer)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer = 0;

	driver = contract_context(0);
	contract_receive(peer, &handle, sizeof(handle));
	EXPECT(CU_OK, driver->cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS));
	contract_tell(peer);
	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	contract_tell(peer);
}

UNIT_MAIN(ALONE(a_small_free_waits_for_all_streams, small_free),
	  ALONE(a_free_in_a_stream_of_its_own_waits_for_none, free_apart),
	  ALONE(a_free_in_a_stream_that_is_destroyed_is_none, free_in_what_goes),
	  PAIR(held_memory_is_read_until_the_last_close_and_given_back_then, owner, importer))
