/* SPDX-License-Identifier: MIT */
/*
 * What a free returns if it is not the one that belongs to the pointer, and that it does no harm.
 */
#include "contract.h"

#define SIZE (2 * CONTRACT_BLOCK)
#define STEP 512
#define NOBODYS ((cu_deviceptr)0x123456789000)

static const struct driver *driver;

static void without_context(int peer)
{
	cu_deviceptr pointer;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuCtxSetCurrent(NULL));
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	EXPECT(CU_OK, driver->cuMemFree_v2(0));
	EXPECT(CU_INVALID_CONTEXT, driver->cuMemAlloc_v2(&pointer, SIZE));
}

/* A call that refuses cuMemAlloc memory leaves all of it intact. */
static void of_plain(int peer)
{
	cu_deviceptr pointer;

	driver = contract_context(0);
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer + CONTRACT_BLOCK));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer + STEP));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2((uintptr_t)&pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(NOBODYS));
	EXPECT(CU_OK, driver->cuMemFree_v2(0));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer + STEP, NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemUnmap(pointer, SIZE));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(NOBODYS, NULL));
	EXPECT(CU_OK, driver->cuMemFreeAsync(0, NULL));
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer, NULL));
}

static cu_deviceptr pooled(void)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer, SIZE, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	contract_fill(pointer, SIZE, 1);
	return pointer;
}

static void of_pooled(int peer)
{
	cu_deviceptr pointer;

	driver = contract_context(0);
	pointer = pooled();
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer + STEP, NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer + STEP));
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer, NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	pointer = pooled();
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

static void of_managed(int peer)
{
	cu_deviceptr pointer = 0;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemAllocManaged(&pointer, SIZE, CU_MANAGED_GLOBAL));
	EXPECT(CU_NOT_SUPPORTED, driver->cuMemFreeAsync(pointer, NULL));
	contract_fill(pointer, SIZE, 1);
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuMemFree_v2(pointer));
}

static void of_pinned(int peer)
{
	void *pinned = NULL;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemHostAlloc(&pinned, SIZE, 0));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2((uintptr_t)pinned));
	memset(pinned, 1, SIZE);
	EXPECT(CU_OK, driver->cuMemFreeHost(pinned));
}

static void of_mapped(int peer)
{
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;
	cu_deviceptr pointer;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuMemCreate(&handle, SIZE, &prop, 0));
	pointer = contract_vmm_map(handle, SIZE, 0, CU_ACCESS_READ_WRITE);
	contract_fill(pointer, SIZE, 1);
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer, NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(pointer));
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuMemUnmap(pointer, SIZE));
}

static void importer(int peer)
{
	cu_ipc_mem_handle handle, again;
	cu_deviceptr pointer = 0;

	driver = contract_context(0);
	contract_receive(peer, &handle, sizeof(handle));
	EXPECT(CU_OK, driver->cuIpcOpenMemHandle_v2(&pointer, handle, CU_IPC_LAZY_PEER_ACCESS));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcGetMemHandle(&again, pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(pointer + STEP));
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuIpcCloseMemHandle(pointer));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcCloseMemHandle(pointer));
	contract_tell(peer);
}

UNIT_MAIN(ALONE(cuMemFree_needs_no_current_context, without_context),
	  ALONE(plain_memory_has_its_own_frees, of_plain),
	  ALONE(pool_memory_has_its_own_frees, of_pooled),
	  ALONE(managed_memory_has_no_stream_ordered_free, of_managed),
	  ALONE(pinned_memory_is_not_freed_by_cuMemFree, of_pinned),
	  ALONE(mapped_memory_is_not_freed_by_any_free, of_mapped),
	  PAIR(an_imported_mapping_is_only_closed_and_has_no_handle, contract_shares, importer))
