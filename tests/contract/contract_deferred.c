/* SPDX-License-Identifier: MIT */
/*
 * The driver's behaviour that deferred frees build on: waiting without a free, freeing without a
 * wait, and what remains of the memory then.
 */
#include "contract.h"

/* More than other programs are likely to allocate meanwhile: the cases compare free memory. */
#define SIZE ((size_t)128 << 20)

static const struct driver *driver;

static size_t room(void)
{
	size_t left = 0, total = 0;

	EXPECT(CU_OK, driver->cuMemGetInfo_v2(&left, &total));
	return left;
}

/* Memory is back once the stream in which it was freed is synchronized, though other work goes
 * on. */
static void free_apart(int peer)
{
	cu_stream apart, stream;
	cu_event event, reached;
	cu_deviceptr pointer;
	atomic_uint *word;
	size_t before;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	stream = contract_stream();
	word = contract_hold_up(stream);
	event = contract_recorded(driver, stream);
	before = room();
	apart = contract_stream();
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
	cu_deviceptr pointer, base = 0;
	cu_stream apart;
	size_t size = 0;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	apart = contract_stream();
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

UNIT_MAIN(ALONE(a_free_in_a_stream_of_its_own_waits_for_none, free_apart),
	  ALONE(a_free_in_a_stream_that_is_destroyed_is_none, free_in_what_goes),
	  PAIR(held_memory_is_read_until_the_last_close_and_given_back_then, owner, importer))
