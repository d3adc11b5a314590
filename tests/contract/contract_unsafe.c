/* SPDX-License-Identifier: MIT */
/*
 * Which calls a global capture on one thread forbids to all other threads. The relaxed mode allows
 * all of them.
 */
#include "capture.h"

#define SIZE CONTRACT_BLOCK

static const struct driver *driver;
static cu_ipc_mem_handle foreign;
static cu_mem_handle created;
static cu_deviceptr memory;
static cu_stream other;
static cu_event event;

static cu_result call_alloc(void)
{
	cu_deviceptr pointer = 0;

	return driver->cuMemAlloc_v2(&pointer, SIZE);
}

static cu_result call_alloc_async(void)
{
	cu_deviceptr pointer = 0;

	return driver->cuMemAllocAsync(&pointer, SIZE, other);
}

static cu_result call_host_alloc(void)
{
	void *pinned = NULL;

	return driver->cuMemHostAlloc(&pinned, 4096, 0);
}

static cu_result call_host_register(void)
{
	void *page = aligned_alloc(4096, 4096);

	return driver->cuMemHostRegister_v2(page, 4096, 0);
}

static cu_result call_query_event(void)
{
	return driver->cuEventQuery(event);
}

static cu_result call_synchronize(void)
{
	return driver->cuStreamSynchronize(other);
}

static cu_result call_range(void)
{
	cu_deviceptr base = 0;
	size_t size = 0;

	return driver->cuMemGetAddressRange_v2(&base, &size, memory);
}

static cu_result call_attribute(void)
{
	cu_context context = NULL;

	return driver->cuPointerGetAttribute(&context, (cu_pointer_attribute)CU_ATTRIBUTE_CONTEXT,
					     memory);
}

static cu_result call_info(void)
{
	size_t left = 0, total = 0;

	return driver->cuMemGetInfo_v2(&left, &total);
}

static cu_result call_get_handle(void)
{
	cu_ipc_mem_handle handle;

	return driver->cuIpcGetMemHandle(&handle, memory);
}

static cu_result call_open_and_close(void)
{
	cu_deviceptr pointer = 0;
	cu_result result =
	    driver->cuIpcOpenMemHandle_v2(&pointer, foreign, CU_IPC_LAZY_PEER_ACCESS);

	return result == CU_OK ? driver->cuIpcCloseMemHandle(pointer) : result;
}

static cu_result call_create_event(void)
{
	cu_event made = NULL;

	return driver->cuEventCreate(&made, CU_EVENT_NO_TIMING);
}

static cu_result call_record_event(void)
{
	return driver->cuEventRecord(event, other);
}

static cu_result call_record_on_legacy(void)
{
	return driver->cuEventRecord(event, NULL);
}

static cu_result call_is_legacy_capturing(void)
{
	cu_capture_status status;

	return driver->cuStreamIsCapturing(NULL, &status);
}

static cu_result call_create(void)
{
	cu_mem_prop prop = contract_vmm_prop();
	cu_mem_handle handle = 0;

	return driver->cuMemCreate(&handle, SIZE, &prop, 0);
}

static cu_result call_export(void)
{
	int fd = -1;
	cu_result result = driver->cuMemExportToShareableHandle(
	    &fd, created, (cu_handle_type)CU_HANDLE_POSIX_FD, 0);

	if (fd >= 0)
		close(fd);
	return result;
}

static cu_result call_map_and_unmap(void)
{
	return driver->cuMemUnmap(contract_vmm_map(created, SIZE, 0, CU_ACCESS_READ_WRITE), SIZE);
}

static cu_result call_create_stream(void)
{
	cu_stream made = NULL;

	return driver->cuStreamCreate(&made, CU_STREAM_NONBLOCKING);
}

static cu_result call_copy(void)
{
	char byte;

	return driver->cuMemcpyDtoH_v2(&byte, memory, 1);
}

static cu_result call_retain(void)
{
	cu_context context = NULL;

	return driver->cuDevicePrimaryCtxRetain(&context, 0);
}

static cu_result (*const forbidden[])(void) = {
    call_alloc,		call_alloc_async, call_host_alloc,
    call_host_register, call_query_event, call_synchronize,
};

static cu_result (*const allowed[])(void) = {
    call_range,
    call_attribute,
    call_info,
    call_get_handle,
    call_open_and_close,
    call_create_event,
    call_record_event,
    call_record_on_legacy,
    call_is_legacy_capturing,
    call_create,
    call_export,
    call_map_and_unmap,
    call_create_stream,
    call_copy,
    call_retain,
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void prepare(int peer)
{
	cu_mem_prop prop = contract_vmm_prop();

	driver = contract_context(0);
	contract_receive(peer, &foreign, sizeof(foreign));
	memory = contract_filled(SIZE, 1);
	EXPECT(CU_OK, driver->cuMemCreate(&created, SIZE, &prop, 0));
	other = contract_stream();
	event = contract_recorded(driver, other);
	EXPECT(CU_OK, driver->cuEventSynchronize(event));
}

/* Begin a capture and record a copy in it. */
static void begin(void)
{
	capture_begin(CU_CAPTURE_GLOBAL);
	EXPECT(CU_OK, driver->cuMemcpyAsync(memory, memory + SIZE / 2, 1024, capture_stream));
}

static void to_others(int peer)
{
	prepare(peer);
	for (size_t i = 0; i < COUNT(forbidden); i++) {
		begin();
		EXPECT(CU_STREAM_CAPTURE_UNSUPPORTED, capture_elsewhere(forbidden[i]));
		capture_ends_invalidated();
	}
	for (size_t i = 0; i < COUNT(allowed); i++) {
		begin();
		EXPECT(CU_OK, capture_elsewhere(allowed[i]));
		capture_ends_well();
	}
	contract_tell(peer);
}

static cu_result (*its_call)(void);

static cu_result relaxed(void)
{
	cu_result result;

	CHECK(capture_exchange(CU_CAPTURE_RELAXED) == CU_CAPTURE_GLOBAL);
	result = its_call();
	CHECK(capture_exchange(CU_CAPTURE_GLOBAL) == CU_CAPTURE_RELAXED);
	return result;
}

static void relaxed_is_allowed(cu_result (*call)(void))
{
	its_call = call;
	begin();
	EXPECT(CU_OK, capture_elsewhere(relaxed));
	capture_ends_well();
}

static void to_relaxed_ones(int peer)
{
	prepare(peer);
	for (size_t i = 0; i < COUNT(forbidden); i++)
		relaxed_is_allowed(forbidden[i]);
	for (size_t i = 0; i < COUNT(allowed); i++)
		relaxed_is_allowed(allowed[i]);
	contract_tell(peer);
}

UNIT_MAIN(PAIR(a_global_capture_forbids_others_some_calls_and_no_more, contract_shares, to_others),
	  PAIR(a_relaxed_thread_may_do_all_of_them, contract_shares, to_relaxed_ones))
