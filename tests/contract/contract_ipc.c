/* SPDX-License-Identifier: MIT */
/* FACTS.md, "Legacy CUDA IPC handles": which memory has one, and what opening it yields. */
#include "contract.h"

#define SIZE (3 * CONTRACT_BLOCK)
#define SMALL 8
#define SMALL_SIZE 700

static cu_ipc_mem_handle handle_of(cu_deviceptr pointer)
{
	cu_ipc_mem_handle handle = {0};

	EXPECT(CU_OK, contract_load()->cuIpcGetMemHandle(&handle, pointer));
	return handle;
}

static cu_deviceptr opened(const cu_ipc_mem_handle *handle)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK,
	       contract_load()->cuIpcOpenMemHandle_v2(&pointer, *handle, CU_IPC_LAZY_PEER_ACCESS));
	return pointer;
}

static cu_ipc_mem_handle received(int peer)
{
	cu_ipc_mem_handle handle;

	contract_receive(peer, &handle, sizeof(handle));
	return handle;
}

static void offer(int peer, cu_deviceptr pointer)
{
	cu_ipc_mem_handle handle = handle_of(pointer);

	contract_send(peer, &handle, sizeof(handle));
}

/* --- which memory has a handle --- */

/* Offer memory filled with 1, and expect the importer to fill it with 2. */
static void owner_of_plain(int peer)
{
	cu_deviceptr pointer;

	contract_context(0);
	pointer = contract_filled(SIZE, 1);
	offer(peer, pointer);
	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, 2));
}

static void owner_of_pitched(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = 0;
	size_t pitch = 0;

	EXPECT(CU_OK, driver->cuMemAllocPitch_v2(&pointer, &pitch, SIZE / 64, 64, 4));
	CHECK(pitch == SIZE / 64);
	contract_fill(pointer, SIZE, 1);
	offer(peer, pointer);
	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, 2));
}

static void importer(int peer)
{
	cu_ipc_mem_handle handle = received(peer);
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = opened(&handle);

	CHECK(contract_holds(pointer, SIZE, 1));
	contract_fill(pointer, SIZE, 2);
	contract_tell(peer);
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
}

static void has_none(cu_deviceptr pointer)
{
	cu_ipc_mem_handle handle = {0};

	EXPECT(CU_INVALID_VALUE, contract_load()->cuIpcGetMemHandle(&handle, pointer));
}

static void others_have_none(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = 0;
	void *pinned = contract_pinned(4096);

	has_none((uintptr_t)pinned);
	has_none((uintptr_t)&pinned);
	has_none(0);
	has_none(0xdead0000dead00);
	EXPECT(CU_OK, driver->cuMemAllocManaged(&pointer, SIZE, CU_MANAGED_GLOBAL));
	has_none(pointer);
	EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer, SIZE, NULL));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	has_none(pointer);
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	has_none(pointer);
}

/* --- small allocations and interior pointers --- */

static void owner_of_small_ones(int peer)
{
	cu_ipc_mem_handle handle[SMALL];

	contract_context(0);
	for (int i = 0; i < SMALL; i++)
		handle[i] = handle_of(contract_filled(SMALL_SIZE, (unsigned char)(i + 1)));
	contract_send(peer, handle, sizeof(handle));
	contract_hear(peer);
}

static void importer_of_small_ones(int peer)
{
	const struct driver *driver;
	cu_ipc_mem_handle handle[SMALL];
	cu_deviceptr pointer[SMALL];

	contract_receive(peer, handle, sizeof(handle));
	driver = contract_context(0);
	for (int i = 0; i < SMALL; i++) {
		cu_deviceptr base = 0;
		size_t size = 0;

		pointer[i] = opened(&handle[i]);
		CHECK(contract_holds(pointer[i], SMALL_SIZE, (unsigned char)(i + 1)));
		EXPECT(CU_OK, driver->cuMemGetAddressRange_v2(&base, &size, pointer[i]));
		CHECK(base == pointer[i]);
		CHECK(size == SMALL_SIZE);
		for (int k = 0; k < i; k++) {
			CHECK(memcmp(&handle[i], &handle[k], sizeof(handle[i])) != 0);
			CHECK(pointer[i] != pointer[k]);
		}
	}
	/* closing one leaves its neighbours in the block */
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer[0]));
	for (int i = 1; i < SMALL; i++)
		CHECK(contract_holds(pointer[i], SMALL_SIZE, (unsigned char)(i + 1)));
	contract_tell(peer);
}

/* Offer an allocation by its base and by an interior pointer. Bytes of 2 start at the latter. */
static void owner_of_interior(int peer)
{
	cu_deviceptr pointer;

	contract_context(0);
	pointer = contract_filled(SIZE, 1);
	contract_fill(pointer + CONTRACT_BLOCK + 12, 4096, 2);
	offer(peer, pointer);
	offer(peer, pointer + CONTRACT_BLOCK + 12);
	contract_hear(peer);
}

static void importer_of_interior(int peer)
{
	cu_ipc_mem_handle base = received(peer), interior = received(peer);
	cu_deviceptr pointer;

	contract_context(0);
	pointer = opened(&interior);
	CHECK(contract_holds(pointer, 4096, 1));
	CHECK(contract_holds(pointer + CONTRACT_BLOCK + 12, 4096, 2));
	CHECK(opened(&base) == pointer);
	contract_tell(peer);
}

/* --- opening --- */

static void importer_that_opens_twice(int peer)
{
	cu_ipc_mem_handle handle = received(peer);
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = opened(&handle);

	CHECK(opened(&handle) == pointer);
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(pointer));
	pointer = opened(&handle);
	CHECK(contract_holds(pointer, SIZE, 1));
	contract_fill(pointer, SIZE, 2);
	contract_tell(peer);
}

static void own_handle(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = contract_filled(SIZE, 1), again = 0;
	cu_ipc_mem_handle handle = handle_of(pointer);

	EXPECT(CU_INVALID_CONTEXT,
	       driver->cuIpcOpenMemHandle_v2(&again, handle, CU_IPC_LAZY_PEER_ACCESS));
	CHECK(contract_holds(pointer, SIZE, 1));
}

static void no_handle_at_all(int peer)
{
	const struct driver *driver = contract_context(0);
	cu_ipc_mem_handle handle;
	cu_deviceptr pointer = 0;

	for (int byte = 0; byte < 256; byte += 85) {
		memset(&handle, byte, sizeof(handle));
		EXPECT(CU_INVALID_VALUE,
		       driver->cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS));
	}
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(0));
}

/* --- an owner that frees or ends --- */

static void owner_that_frees(int peer)
{
	cu_deviceptr pointer;

	contract_context(0);
	pointer = contract_filled(SIZE, 1);
	offer(peer, pointer);
	contract_hear(peer); /* the importer has opened the handle */
	EXPECT(CU_OK, contract_load()->cuMemFree_v2(pointer));
	contract_tell(peer);
	contract_hear(peer);
}

static void keeps_memory(cu_deviceptr pointer)
{
	CHECK(contract_holds(pointer, SIZE, 1));
	contract_fill(pointer, SIZE, 5);
	CHECK(contract_holds(pointer, SIZE, 5));
}

/* If the handle is open in this process, the driver opens it again without the owner. */
static void opens_once_more(cu_deviceptr pointer, const cu_ipc_mem_handle *handle)
{
	CHECK(opened(handle) == pointer);
	EXPECT(CU_OK, contract_load()->cuIpcCloseMemHandle(pointer));
	CHECK(contract_holds(pointer, SIZE, 5));
}

static cu_result open_answer(const cu_ipc_mem_handle *handle)
{
	cu_deviceptr pointer = 0;

	return contract_load()->cuIpcOpenMemHandle_v2(&pointer, *handle, CU_IPC_LAZY_PEER_ACCESS);
}

static void importer_after_free(int peer)
{
	cu_ipc_mem_handle handle = received(peer);
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = opened(&handle);

	contract_tell(peer);
	contract_hear(peer);
	keeps_memory(pointer);
	opens_once_more(pointer, &handle);
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	EXPECT(CU_INVALID_VALUE, open_answer(&handle));
	contract_tell(peer);
}

/* Make one more small allocation in the block of `pointer`, or exactly at its address. */
static cu_deviceptr in_its_block(cu_deviceptr pointer, bool at_its_place)
{
	for (int i = 0; i < 4096; i++) {
		cu_deviceptr other = contract_filled(SMALL_SIZE, 3);

		if (at_its_place ? other == pointer
				 : other / CONTRACT_BLOCK == pointer / CONTRACT_BLOCK)
			return other;
	}
	return 0;
}

/*
 * Free the offered memory while a neighbour keeps the block. Then allocate the same address again.
 */
static void owner_with_a_neighbour(int peer)
{
	cu_deviceptr pointer, neighbour;

	contract_context(0);
	pointer = contract_filled(SMALL_SIZE, 1);
	neighbour = in_its_block(pointer, false);
	CHECK(neighbour != 0);
	offer(peer, pointer);
	EXPECT(CU_OK, contract_load()->cuMemFree_v2(pointer));
	contract_tell(peer);
	contract_hear(peer);
	CHECK(in_its_block(pointer, true) == pointer);
	contract_tell(peer);
	contract_hear(peer);
	CHECK(contract_holds(neighbour, SMALL_SIZE, 3));
}

/* The driver only checks that the block exists, not that the allocation does. */
static void importer_of_a_freed_place(int peer)
{
	cu_ipc_mem_handle handle = received(peer);

	contract_context(0);
	for (int i = 0; i < 2; i++) {
		contract_hear(peer);
		EXPECT(CU_OK, contract_load()->cuIpcCloseMemHandle(opened(&handle)));
		contract_tell(peer);
	}
}

static void owner_that_exits(int peer)
{
	contract_context(0);
	offer(peer, contract_filled(SIZE, 1));
	contract_hear(peer);
}

static void importer_after_exit(int peer)
{
	cu_ipc_mem_handle handle = received(peer);
	const struct driver *driver = contract_context(0);
	cu_deviceptr pointer = opened(&handle);

	contract_tell(peer);
	contract_await_owner_end();
	keeps_memory(pointer);
	opens_once_more(pointer, &handle);
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	EXPECT(CU_INVALID_HANDLE, open_answer(&handle));
}

UNIT_MAIN(PAIR(cuMemAlloc_has_a_handle_and_both_sides_see_stores, owner_of_plain, importer),
	  PAIR(cuMemAllocPitch_has_a_handle, owner_of_pitched, importer),
	  ALONE(managed_stream_ordered_and_host_memory_have_none, others_have_none),
	  PAIR(small_allocations_have_each_their_own, owner_of_small_ones, importer_of_small_ones),
	  PAIR(an_interior_pointer_yields_the_handle_of_the_base, owner_of_interior,
	       importer_of_interior),
	  PAIR(opening_twice_gives_the_same_pointer_and_counts, owner_of_plain,
	       importer_that_opens_twice),
	  ALONE(opening_ones_own_is_invalid_context, own_handle),
	  ALONE(opening_or_closing_what_is_none_is_invalid_value, no_handle_at_all),
	  PAIR(after_the_owners_free_the_importer_keeps_the_memory, owner_that_frees,
	       importer_after_free),
	  PAIR(what_was_freed_opens_while_a_neighbour_keeps_the_block, owner_with_a_neighbour,
	       importer_of_a_freed_place),
	  PAIR(after_the_owners_exit_the_importer_keeps_the_memory, owner_that_exits,
	       importer_after_exit))
