/* SPDX-License-Identifier: MIT */
/*
 * The end of a context: what ends with it, and what calls return in threads that have it current.
 */
#include "contract.h"

#define SIZE (128 * CONTRACT_BLOCK)

static const struct driver *driver;

static cu_context created(void)
{
	cu_context context = NULL, now = NULL;

	driver = contract_initialise();
	EXPECT(CU_OK, driver->cuCtxCreate_v2(&context, 0, 0));
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&now));
	CHECK(context != NULL && now == context);
	return context;
}

static cu_context retained(void)
{
	cu_context context = NULL;

	driver = contract_initialise();
	EXPECT(CU_OK, driver->cuDevicePrimaryCtxRetain(&context, 0));
	EXPECT(CU_OK, driver->cuCtxSetCurrent(context));
	return context;
}

static size_t free_bytes(void)
{
	size_t left = 0, total = 0;

	EXPECT(CU_OK, driver->cuMemGetInfo_v2(&left, &total));
	return left;
}

/* Other processes may be using the GPU too. */
static bool comes_back(size_t bytes)
{
	for (int tries = 0; tries < 100; tries++) {
		if (free_bytes() >= bytes)
			return true;
		usleep(50000);
	}
	return false;
}

static bool is_memory(cu_deviceptr pointer)
{
	unsigned int type = 0;

	return driver->cuPointerGetAttribute(&type, (cu_pointer_attribute)CU_ATTRIBUTE_MEMORY_TYPE,
					     pointer) == CU_OK;
}

static cu_deviceptr pooled(void)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK, driver->cuMemAllocAsync(&pointer, CONTRACT_BLOCK, NULL));
	EXPECT(CU_OK, driver->cuStreamSynchronize(NULL));
	return pointer;
}

/* As seen from the primary context, which stays. */
static void destroyed(int peer)
{
	cu_context context, primary, now = NULL;
	cu_deviceptr pointer, kept, ordered;
	size_t left;

	primary = retained();
	kept = contract_filled(CONTRACT_BLOCK, 1);
	context = created();
	ordered = pooled();
	CHECK(context != primary);
	pointer = contract_filled(SIZE, 2);
	CHECK(is_memory(pointer));
	left = free_bytes();
	EXPECT(CU_OK, driver->cuCtxDestroy_v2(context));
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&now));
	CHECK(now == primary);
	CHECK(!is_memory(pointer));
	CHECK(comes_back(left + SIZE));
	CHECK(contract_holds(kept, CONTRACT_BLOCK, 1));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	EXPECT(CU_OK, driver->cuMemFreeAsync(ordered, NULL)); /* pool memory is the device's */
}

static cu_context doomed;
static pthread_barrier_t barrier;

static void *left_with_it(void *unused)
{
	cu_deviceptr pointer = 0;

	EXPECT(CU_OK, driver->cuCtxSetCurrent(doomed));
	EXPECT(CU_OK, driver->cuMemAlloc_v2(&pointer, CONTRACT_BLOCK));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	EXPECT(CU_CONTEXT_IS_DESTROYED, driver->cuMemAlloc_v2(&pointer, CONTRACT_BLOCK));
	return unused;
}

/* As CUDA documents for cuCtxDestroy. */
static void destroyed_under_a_thread(int peer)
{
	pthread_t thread;

	doomed = created();
	CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
	CHECK(pthread_create(&thread, NULL, left_with_it, NULL) == 0);
	pthread_barrier_wait(&barrier);
	EXPECT(CU_OK, driver->cuCtxDestroy_v2(doomed));
	pthread_barrier_wait(&barrier);
	CHECK(pthread_join(thread, NULL) == 0);
}

/* As CUDA documents for cuCtxDestroy: cuMemCreate memory does not belong to the context. */
static void vmm_stays(int peer)
{
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;
	cu_context context;
	int fd = -1;

	context = created();
	EXPECT(CU_OK, driver->cuMemCreate(&handle, CONTRACT_BLOCK, &prop, 0));
	EXPECT(CU_OK, driver->cuCtxDestroy_v2(context));
	EXPECT(CU_OK, driver->cuMemExportToShareableHandle(&fd, handle,
							   (cu_handle_type)CU_HANDLE_POSIX_FD, 0));
	EXPECT(CU_OK, driver->cuMemRelease(handle));
}

static int is_active(void)
{
	unsigned int flags = 0;
	int active = -1;

	EXPECT(CU_OK, driver->cuDevicePrimaryCtxGetState(0, &flags, &active));
	return active;
}

static cu_result reset_it(void)
{
	return driver->cuDevicePrimaryCtxReset_v2(0);
}

static cu_result release_it(void)
{
	return driver->cuDevicePrimaryCtxRelease_v2(0);
}

/*
 * The ended primary context stays current as a destroyed one. Retaining it yields the same context.
 * Its memory is given back; pool memory stays, as it belongs to the device.
 */
static void primary_ends(cu_result (*end)(void))
{
	cu_context context = retained(), now = NULL;
	cu_deviceptr pointer = contract_filled(SIZE, 1), ordered = pooled(), fresh = 0;
	size_t left = free_bytes();

	EXPECT(CU_OK, end());
	CHECK(is_active() == 0);
	CHECK(!is_memory(pointer));
	EXPECT(CU_OK, driver->cuCtxGetCurrent(&now));
	CHECK(now == context);
	EXPECT(CU_CONTEXT_IS_DESTROYED, driver->cuMemFree_v2(pointer));
	EXPECT(CU_CONTEXT_IS_DESTROYED, driver->cuMemAlloc_v2(&fresh, CONTRACT_BLOCK));
	CHECK(retained() == context);
	CHECK(is_active() == 1);
	CHECK(comes_back(left + SIZE));
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
	EXPECT(CU_OK, driver->cuMemFreeAsync(ordered, NULL));
	fresh = contract_filled(SIZE, 2);
	CHECK(contract_holds(fresh, SIZE, 2));
}

static void back_after_reset(int peer)
{
	primary_ends(reset_it);
}

static void back_after_release(int peer)
{
	primary_ends(release_it);
}

static void released(int peer)
{
	cu_deviceptr pointer;

	retained();
	retained();
	pointer = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuDevicePrimaryCtxRelease_v2(0));
	CHECK(is_active() == 1);
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_OK, driver->cuDevicePrimaryCtxRelease_v2(0));
	CHECK(is_active() == 0);
	EXPECT(CU_INVALID_CONTEXT, driver->cuDevicePrimaryCtxRelease_v2(0));
}

static void of_a_stream(int peer)
{
	cu_context primary, context, its = NULL;
	cu_stream stream = NULL;

	primary = retained();
	EXPECT(CU_OK, driver->cuStreamCreate(&stream, 0));
	context = created();
	EXPECT(CU_OK, driver->cuStreamGetCtx(stream, &its));
	CHECK(its == primary);
	EXPECT(CU_OK, driver->cuStreamGetCtx(NULL, &its));
	CHECK(its == context);
}

/* Free memory behind a stream, in another stream of the same context. */
static void free_behind(void)
{
	cu_deviceptr pointer = contract_filled(CONTRACT_BLOCK, 1);
	cu_stream stream = contract_stream(), behind = contract_stream();
	cu_event event = NULL;

	EXPECT(CU_OK, driver->cuEventCreate(&event, CU_EVENT_NO_TIMING));
	EXPECT(CU_OK, driver->cuEventQuery(event)); /* an event that was never recorded is ready */
	EXPECT(CU_OK, driver->cuEventRecord(event, stream));
	EXPECT(CU_OK, driver->cuStreamWaitEvent(behind, event, 0));
	EXPECT(CU_OK, driver->cuMemFreeAsync(pointer, behind));
	EXPECT(CU_OK, driver->cuCtxSynchronize());
	EXPECT(CU_INVALID_VALUE, driver->cuMemFree_v2(pointer));
}

/*
 * free_behind() destroys no stream or event: they end with the context, and the next context gets
 * its own.
 */
static void streams_end(int peer)
{
	cu_context context, primary = retained();

	for (int i = 0; i < 3; i++) {
		free_behind();
		EXPECT(CU_OK, reset_it());
		CHECK(retained() == primary);
	}
	free_behind();
	for (int i = 0; i < 3; i++) {
		context = created();
		free_behind();
		EXPECT(CU_OK, driver->cuCtxDestroy_v2(context));
	}
	free_behind();
}

/* --- what happens to its memory in other processes --- */

enum { OPEN_BEFORE, OPEN_AFTER, OFFERED };

static void offer(int peer)
{
	cu_ipc_mem_handle handle[OFFERED];

	for (int i = 0; i < OFFERED; i++)
		EXPECT(CU_OK, driver->cuIpcGetMemHandle(&handle[i], contract_filled(SIZE, 1)));
	contract_send(peer, handle, sizeof(handle));
	contract_hear(peer);
}

static void stay_without(int peer)
{
	contract_tell(peer);
	contract_hear(peer);
}

static void owner_that_destroys(int peer)
{
	cu_context context = created();

	offer(peer);
	EXPECT(CU_OK, driver->cuCtxDestroy_v2(context));
	stay_without(peer);
}

static void owner_that_resets(int peer)
{
	retained();
	offer(peer);
	EXPECT(CU_OK, reset_it());
	stay_without(peer);
}

static void owner_that_releases(int peer)
{
	retained();
	offer(peer);
	EXPECT(CU_OK, release_it());
	stay_without(peer);
}

/* Same answers as after the owner has freed memory that had its block to itself. */
static void importer_of_the_gone(int peer)
{
	cu_ipc_mem_handle handle[OFFERED];
	cu_deviceptr pointer = 0, again = 0;

	contract_receive(peer, handle, sizeof(handle));
	driver = contract_context(0);
	EXPECT(CU_OK, driver->cuIpcOpenMemHandle_v2(&pointer, handle[OPEN_BEFORE],
						    CU_IPC_LAZY_PEER_ACCESS));
	contract_tell(peer);
	contract_hear(peer);
	CHECK(contract_holds(pointer, SIZE, 1));
	EXPECT(CU_INVALID_VALUE,
	       driver->cuIpcOpenMemHandle_v2(&again, handle[OPEN_AFTER], CU_IPC_LAZY_PEER_ACCESS));
	EXPECT(CU_OK,
	       driver->cuIpcOpenMemHandle_v2(&again, handle[OPEN_BEFORE], CU_IPC_LAZY_PEER_ACCESS));
	CHECK(again == pointer);
	contract_fill(pointer, SIZE, 2);
	CHECK(contract_holds(pointer, SIZE, 2));
	contract_tell(peer);
}

UNIT_MAIN(ALONE(destroying_a_context_frees_its_memory_and_no_other, destroyed),
	  ALONE(a_thread_left_with_a_destroyed_context_is_told_so, destroyed_under_a_thread),
	  ALONE(what_cuMemCreate_made_outlives_the_context, vmm_stays),
	  ALONE(only_the_last_release_ends_the_primary_context, released),
	  ALONE(a_stream_says_whose_it_is, of_a_stream),
	  ALONE(a_reset_primary_context_frees_its_memory_and_comes_back, back_after_reset),
	  ALONE(a_released_primary_context_frees_its_memory_and_comes_back, back_after_release),
	  ALONE(a_contexts_streams_end_with_it, streams_end),
	  PAIR(importers_keep_what_they_have_open_of_a_destroyed_context, owner_that_destroys,
	       importer_of_the_gone),
	  PAIR(importers_keep_what_they_have_open_of_a_reset_context, owner_that_resets,
	       importer_of_the_gone),
	  PAIR(importers_keep_what_they_have_open_of_a_released_context, owner_that_releases,
	       importer_of_the_gone))
