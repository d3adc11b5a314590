/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory, and streams blocked on a word in memory. */
#include "contract.h"

#define SIZE (3 * CONTRACT_BLOCK)

static const struct driver *driver;

static void behind_a_wait(int peer)
{
	cu_event before, event;
	atomic_uint *word;
	cu_stream stream;

	driver = contract_context(0);
	before = contract_recorded(driver, contract_stream());
	stream = contract_stream();
	word = contract_hold_up(stream);
	event = contract_recorded(driver, stream);
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	EXPECT(CU_OK, driver->cuEventSynchronize(before)); /* another stream isn't blocked */
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	atomic_store(word, 1);
	EXPECT(CU_OK, driver->cuEventSynchronize(event));
	EXPECT(CU_OK, driver->cuEventQuery(event));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	EXPECT(CU_OK, driver->cuStreamDestroy_v2(stream));
	EXPECT(CU_OK, driver->cuEventDestroy_v2(event));
}

static void synchronizing(int peer)
{
	cu_stream stream;

	driver = contract_context(0);
	stream = contract_stream();
	contract_release_later(contract_hold_up(stream));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	contract_was_released();
}

/* Even a free of a few bytes waits, in a block that stays in use. */
static void freeing(int peer)
{
	cu_deviceptr pointer[2];
	atomic_uint *word;

	driver = contract_context(0);
	pointer[0] = contract_filled(SIZE, 1);
	contract_filled(1, 1);
	for (int i = 0; i < 2; i++) {
		word = contract_hold_up(contract_stream());
		EXPECT(CU_OK, driver->cuMemAlloc_v2(&pointer[1], 1));
		contract_release_later(word);
		EXPECT(CU_OK, driver->cuMemFree_v2(pointer[i]));
		contract_was_released();
	}
}

static void freeing_in_order(int peer)
{
	cu_deviceptr pointer = 0;
	atomic_uint *word;
	cu_stream stream;
	cu_event event;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer, SIZE, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	stream = contract_stream();
	word = contract_hold_up(stream);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, stream));
	event = contract_recorded(driver, stream);
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	atomic_store(word, 1);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	EXPECT(CU_OK, driver->cuEventQuery(event));
}

/* Both frees work: CUDA documents that cuMemFree may take stream-ordered memory. */
static void in_order(int peer)
{
	cu_deviceptr pointer[2] = {0, 0};
	cu_stream stream;

	driver = contract_context(0);
	stream = contract_stream();
	for (int i = 0; i < 2; i++)
		EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer[i], SIZE, stream));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	CHECK(pointer[0] != pointer[1]);
	for (int i = 0; i < 2; i++)
		contract_fill(pointer[i], SIZE, (unsigned char)(i + 1));
	for (int i = 0; i < 2; i++)
		CHECK(contract_holds(pointer[i], SIZE, (unsigned char)(i + 1)));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer[0], stream));
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer[1]));
	EXPECT(CU_OK, driver->cuMemFreeAsync(0, stream));
}

/* cuMemAlloc memory may be freed in stream order too. */
static void plain_memory_in_order(int peer)
{
	cu_deviceptr pointer, other;
	atomic_uint *word;
	cu_stream stream;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	other = contract_filled(SIZE, 2);
	EXPECT(CU_OK, driver->cuMemFreeAsync(other, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(other));
	stream = contract_stream();
	word = contract_hold_up(stream);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, stream));
	EXPECT(CU_NOT_READY, driver->cuEventQuery(contract_recorded(driver, stream)));
	atomic_store(word, 1);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

static void unmapping(int peer)
{
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;
	cu_deviceptr pointer;
	atomic_uint *word;
	cu_stream stream;
	cu_event event;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemCreate(&handle, CONTRACT_BLOCK, &prop, 0));
	pointer = contract_vmm_map(handle, CONTRACT_BLOCK, 0, CU_ACCESS_READ_WRITE);
	stream = contract_stream();
	word = contract_hold_up(stream);
	event = contract_recorded(driver, stream);
	EXPECT(CU_OK, driver->cuMemUnmap(pointer, CONTRACT_BLOCK));
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	atomic_store(word, 1);
	EXPECT(CU_OK, driver->cuEventSynchronize(event));
}

/* The close waits even though the blocked stream doesn't use the mapping. */
static void importer_that_closes(int peer)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer = 0;

	driver = contract_context(0);
	contract_receive(peer, &handle, sizeof(handle));
	EXPECT(CU_OK, driver->cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS));
	contract_release_later(contract_hold_up(contract_stream()));
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	contract_was_released();
	contract_tell(peer);
}

/* For every call that takes a stream, 1 is the legacy stream and 2 the thread's own. */
static void by_number(int peer)
{
	cu_context current = NULL, its = NULL;
	cu_deviceptr pointer = 0;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&current));
	EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer, SIZE, (cu_stream)1));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, (cu_stream)2));
	for (uintptr_t i = 0; i < 3; i++) {
		cu_capture_status status = (cu_capture_status)-1;

		EXPECT(CU_OK, driver->cuStreamGetCtx((cu_stream)i, &its));
		CHECK(its == current);
		EXPECT(CU_OK, driver->cuEventSynchronize(contract_recorded(driver, (cu_stream)i)));
		EXPECT(CU_OK, driver->cuStreamIsCapturing((cu_stream)i, &status));
		CHECK((int)status == CU_CAPTURE_NONE);
	}
	EXPECT(CU_OK, driver->cuCtxSetCurrent(NULL));
	for (uintptr_t i = 0; i < 3; i++)
		EXPECT(CU_INVALID_CONTEXT, driver->cuStreamGetCtx((cu_stream)i, &its));
}

static cu_mem_pool pool_behind(cu_deviceptr pointer)
{
	cu_mem_pool pool = NULL;

	EXPECT(CU_OK, driver->cuPointerGetAttribute(
			  &pool, (cu_pointer_attribute)CU_ATTRIBUTE_MEMPOOL, pointer));
	return pool;
}

static void from_a_pool(int peer)
{
	cu_deviceptr pointer = 0, other = 0;
	cu_mem_pool pool = NULL, again = NULL;
	cu_device device;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuDeviceGet(&device, 0));
	EXPECT(CU_OK, driver->cuDeviceGetDefaultMemPool(&pool, device));
	EXPECT(CU_OK, driver->cuDeviceGetDefaultMemPool(&again, device));
	CHECK(pool != NULL && pool == again);
	EXPECT(CU_OK, driver->cuMemAllocFromPoolAsync(&pointer, SIZE, pool, NULL));
	EXPECT(CU_OK, driver->cuMemAllocAsync(&other, SIZE, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	CHECK(pool_behind(pointer) == pool);
	CHECK(pool_behind(other) == pool);
	CHECK(pool_behind(contract_filled(SIZE, 1)) == NULL);
	contract_fill(pointer, SIZE, 3);
	CHECK(contract_holds(pointer, SIZE, 3));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, NULL));
	EXPECT(CU_OK, driver->cuMemFreeAsync(other, NULL));
}

/* Programs built for per-thread default streams call these entries. */
static void per_thread(int peer)
{
	cu_deviceptr pointer = 0, pooled = 0;
	cu_mem_pool pool = NULL;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuDeviceGetDefaultMemPool(&pool, 0));
	EXPECT(CU_OK, driver->cuMemAllocAsync_ptsz(&pointer, SIZE, NULL));
	EXPECT(CU_OK, driver->cuMemAllocFromPoolAsync_ptsz(&pooled, SIZE, pool, NULL));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	contract_fill(pointer, SIZE, 1);
	contract_fill(pooled, SIZE, 2);
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuMemFreeAsync_ptsz(pointer, NULL));
	EXPECT(CU_OK, driver->cuMemFreeAsync_ptsz(pooled, NULL));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
}

UNIT_MAIN(ALONE(an_event_behind_a_wait_is_not_ready, behind_a_wait),
	  ALONE(synchronizing_a_stream_waits_for_it, synchronizing),
	  ALONE(cuMemFree_waits_for_all_streams, freeing),
	  ALONE(cuMemFreeAsync_does_not_wait, freeing_in_order),
	  ALONE(stream_ordered_memory_is_ordinary_once_it_is_there, in_order),
	  ALONE(cuMemFreeAsync_frees_plain_memory_in_stream_order, plain_memory_in_order),
	  ALONE(cuMemUnmap_does_not_wait, unmapping),
	  PAIR(cuIpcCloseMemHandle_waits_for_all_streams, contract_shares, importer_that_closes),
	  ALONE(streams_0_1_and_2_are_the_default_ones, by_number),
	  ALONE(the_default_pool_is_what_stream_ordered_memory_comes_from, from_a_pool),
	  ALONE(the_per_thread_entries_allocate_and_free, per_thread))
