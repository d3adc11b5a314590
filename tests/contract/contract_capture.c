/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: which allocator calls it forbids, in which threads, and how the capture ends
 * then. FACTS.md covers cuMemAlloc and cuMemCreate. CUDA documents the modes for
 * cuThreadExchangeStreamCaptureMode. Behaviour from neither source is marked as unmeasured.
 */
#include "capture.h"

#define SIZE (2 * CONTRACT_BLOCK)
#define MODE_THREAD_LOCAL 1
#define CAPTURE_IMPLICIT 906

static const struct driver *driver;

/* --- calls --- */

static cu_deviceptr memory;
static cu_event event;

static cu_result alloc(void)
{
	cu_deviceptr pointer = 0;

	return driver->cuMemAlloc_v2(&pointer, SIZE);
}

static cu_result alloc_pitch(void)
{
	cu_deviceptr pointer = 0;
	size_t pitch = 0;

	return driver->cuMemAllocPitch_v2(&pointer, &pitch, 512, 64, 4);
}

static cu_result alloc_managed(void)
{
	cu_deviceptr pointer = 0;

	return driver->cuMemAllocManaged(&pointer, SIZE, CU_MANAGED_GLOBAL);
}

static cu_result free_memory(void)
{
	return driver->cuMemFree_v2(memory);
}

static cu_result query_event(void)
{
	return driver->cuEventQuery(event);
}

static cu_result synchronize(void)
{
	return driver->cuStreamSynchronize(capture_stream);
}

/* --- cases --- */

static void spoils(cu_result (*call)(void))
{
	capture_begin(CU_CAPTURE_GLOBAL);
	EXPECT(CU_STREAM_CAPTURE_UNSUPPORTED, call());
	capture_ends_invalidated();
}

static void cuMemAlloc_spoils(int peer)
{
	driver = contract_context(0);
	spoils(alloc);
	EXPECT(CU_OK, alloc());
}

/* Unmeasured: cuMemAllocPitch, cuMemAllocManaged and the frees. */
static void its_kin_spoil(int peer)
{
	driver = contract_context(0);
	memory = contract_filled(SIZE, 1);
	event = contract_recorded(driver, NULL);
	EXPECT(CU_OK, driver->cuEventSynchronize(event));
	spoils(alloc_pitch);
	spoils(alloc_managed);
	spoils(free_memory);
	spoils(query_event);
	spoils(synchronize);
	CHECK(contract_holds(memory, SIZE, 1));
	EXPECT(CU_OK, free_memory());
}

static void vmm_is_allowed(int peer)
{
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;

	driver = contract_context(0);
	capture_begin(CU_CAPTURE_GLOBAL);
	EXPECT(CU_OK, driver->cuMemCreate(&handle, SIZE, &prop, 0));
	capture_ends_well();
	EXPECT(CU_OK, driver->cuMemRelease(handle));
}

static void relaxed_thread(int peer)
{
	driver = contract_context(0);
	capture_begin(CU_CAPTURE_GLOBAL);
	CHECK(capture_exchange(CU_CAPTURE_RELAXED) == CU_CAPTURE_GLOBAL);
	EXPECT(CU_OK, alloc());
	CHECK(capture_exchange(CU_CAPTURE_GLOBAL) == CU_CAPTURE_RELAXED);
	capture_ends_well();
}

static void relaxed_capture(int peer)
{
	driver = contract_context(0);
	capture_begin(CU_CAPTURE_RELAXED);
	EXPECT(CU_OK, alloc());
	EXPECT(CU_OK, capture_elsewhere(alloc));
	capture_ends_well();
}

static void thread_local_capture(int peer)
{
	driver = contract_context(0);
	capture_begin(MODE_THREAD_LOCAL);
	EXPECT(CU_OK, capture_elsewhere(alloc));
	EXPECT(CU_STREAM_CAPTURE_UNSUPPORTED, alloc());
	capture_ends_invalidated();
}

/* The call returns an address that the graph would allocate. The capture stays valid. */
static void stream_ordered(int peer)
{
	cu_deviceptr pointer = 0;

	driver = contract_context(0);
	capture_begin(CU_CAPTURE_GLOBAL);
	EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer, SIZE, capture_stream));
	CHECK(pointer != 0);
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, capture_stream));
	capture_ends_well();
}

static void frees_none_of(cu_deviceptr pointer)
{
	capture_begin(CU_CAPTURE_GLOBAL);
	EXPECT(CU_INVALID_VALUE, driver->cuMemFreeAsync(pointer, capture_stream));
	capture_ends_well();
	CHECK(contract_holds(pointer, SIZE, 1));
}

/* A captured free accepts only memory of a captured allocation. Such memory has no IPC handle. */
static void memory_from_before(int peer)
{
	cu_deviceptr plain, ordered = 0, within = 0;
	cu_ipc_mem_handle handle;

	driver = contract_context(0);
	plain = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuMemAllocAsync(&ordered, SIZE, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	contract_fill(ordered, SIZE, 1);
	frees_none_of(plain);
	frees_none_of(ordered);
	EXPECT(CU_OK, driver->cuMemFree_v2(plain));
	EXPECT(CU_OK, driver->cuMemFreeAsync(ordered, NULL));
	capture_begin(CU_CAPTURE_GLOBAL);
	EXPECT(CU_OK, driver->cuMemAllocAsync(&within, SIZE, capture_stream));
	EXPECT(CU_INVALID_VALUE, driver->cuIpcGetMemHandle(&handle, within));
	capture_ends_well();
}

/* What CUDA documents for cuStreamIsCapturing on the legacy stream. */
static void legacy_stream(int peer)
{
	cu_capture_status status = (cu_capture_status)-1;

	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuStreamIsCapturing(NULL, &status));
	CHECK((int)status == CU_CAPTURE_NONE);
	capture_begin(CU_CAPTURE_RELAXED); /* the legacy stream doesn't wait for this one */
	EXPECT(CU_OK, driver->cuStreamIsCapturing(NULL, &status));
	CHECK((int)status == CU_CAPTURE_NONE);
	capture_ends_well();
	EXPECT(CU_OK, driver->cuStreamCreate(&capture_stream, 0));
	capture_begin(CU_CAPTURE_RELAXED);
	EXPECT((cu_result)CAPTURE_IMPLICIT, driver->cuStreamIsCapturing(NULL, &status));
	EXPECT((cu_result)CAPTURE_IMPLICIT,
	       driver->cuStreamBeginCapture_v2(NULL, (cu_capture_mode)CU_CAPTURE_RELAXED));
}

UNIT_MAIN(ALONE(cuMemAlloc_spoils_a_global_capture, cuMemAlloc_spoils),
	  ALONE(other_unsafe_calls_spoil_it_too, its_kin_spoil),
	  ALONE(cuMemCreate_is_allowed, vmm_is_allowed),
	  ALONE(a_relaxed_thread_may_do_all, relaxed_thread),
	  ALONE(a_relaxed_capture_forbids_nothing, relaxed_capture),
	  ALONE(a_thread_local_capture_concerns_its_thread_only, thread_local_capture),
	  ALONE(stream_ordered_allocation_is_captured, stream_ordered),
	  ALONE(a_captured_stream_frees_nothing_from_before, memory_from_before),
	  ALONE(the_legacy_stream_answers_implicit, legacy_stream))
