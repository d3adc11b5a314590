/* SPDX-License-Identifier: MIT */
/* What a stream capture forbids to others, what the relaxed mode allows, and what the captured
 * stream takes. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "facts.h"

static cu_ipc_mem_handle foreign_handle;
static cu_deviceptr pointer, spare;
static cu_mem_handle vmm_handle;
static cu_stream other_stream;
static cu_event recorded_event;
static struct { /* what a case may free: new for each */
	cu_deviceptr plain, pooled;
	void *host;
} prepared;

static cu_result do_alloc(void)
{
	return cu.cuMemAlloc_v2(&spare, BLOCK);
}

static cu_result do_free(void)
{
	return cu.cuMemFree_v2(prepared.plain);
}

static cu_result do_free_async(void)
{
	return cu.cuMemFreeAsync(prepared.pooled, other_stream);
}

static cu_result do_free_host(void)
{
	return cu.cuMemFreeHost(prepared.host);
}

static cu_result do_query_stream(void)
{
	return cu.cuStreamQuery(other_stream);
}

static cu_result do_synchronize_event(void)
{
	return cu.cuEventSynchronize(recorded_event);
}

static cu_result do_address_range(void)
{
	cu_deviceptr base;
	size_t size;

	return cu.cuMemGetAddressRange_v2(&base, &size, pointer);
}

static cu_result do_pointer_attribute(void)
{
	cu_context context;

	return cu.cuPointerGetAttribute(&context, CU_ATTRIBUTE_CONTEXT, pointer);
}

static cu_result do_mem_info(void)
{
	size_t free, total;

	return cu.cuMemGetInfo_v2(&free, &total);
}

static cu_result do_get_handle(void)
{
	cu_ipc_mem_handle handle;

	return cu.cuIpcGetMemHandle(&handle, pointer);
}

static cu_result do_open_handle(void)
{
	cu_result result =
	    cu.cuIpcOpenMemHandle_v2(&spare, foreign_handle, CU_IPC_LAZY_PEER_ACCESS);

	if (result != CU_OK)
		return result;
	return cu.cuIpcCloseMemHandle(spare);
}

static cu_result do_create_event(void)
{
	cu_event event;

	return cu.cuEventCreate(&event, CU_EVENT_NO_TIMING);
}

static cu_result do_record_event(void)
{
	return cu.cuEventRecord(recorded_event, other_stream);
}

static cu_result do_query_event(void)
{
	return cu.cuEventQuery(recorded_event);
}

static cu_result do_record_and_query(void)
{
	cu_result result = cu.cuEventRecord(recorded_event, other_stream);

	while (result == CU_OK && (result = cu.cuEventQuery(recorded_event)) == CU_NOT_READY)
		result = CU_OK;
	return result;
}

static cu_result do_record_legacy(void)
{
	return cu.cuEventRecord(recorded_event, NULL);
}

static cu_result do_is_capturing_legacy(void)
{
	cu_capture_status status;

	return cu.cuStreamIsCapturing(NULL, &status);
}

static cu_result do_create(void)
{
	cu_mem_prop prop = facts_prop(CU_HANDLE_POSIX_FD);
	cu_mem_handle handle;

	return cu.cuMemCreate(&handle, BLOCK, &prop, 0);
}

static cu_result do_export(void)
{
	int fd = -1;
	cu_result result = cu.cuMemExportToShareableHandle(&fd, vmm_handle, CU_HANDLE_POSIX_FD, 0);

	if (fd >= 0)
		close(fd);
	return result;
}

static cu_result do_map_unmap(void)
{
	cu_mem_access access = {{CU_LOCATION_DEVICE, facts_device}, CU_ACCESS_READ_WRITE};
	cu_deviceptr at = 0;
	cu_result result = cu.cuMemAddressReserve(&at, BLOCK, 0, 0, 0);

	if (result == CU_OK)
		result = cu.cuMemMap(at, BLOCK, 0, vmm_handle, 0);
	if (result == CU_OK)
		result = cu.cuMemSetAccess(at, BLOCK, &access, 1);
	return result == CU_OK ? cu.cuMemUnmap(at, BLOCK) : result;
}

static cu_result do_alloc_async(void)
{
	return cu.cuMemAllocAsync(&spare, BLOCK, other_stream);
}

static cu_result do_host_alloc(void)
{
	void *host;

	return cu.cuMemHostAlloc(&host, 4096, 0);
}

static cu_result do_host_register(void)
{
	void *host = aligned_alloc(4096, 4096);

	return cu.cuMemHostRegister_v2(host, 4096, 0);
}

static cu_result do_stream_create(void)
{
	cu_stream stream;

	return cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING);
}

static cu_result do_copy(void)
{
	char byte;

	return cu.cuMemcpyDtoH_v2(&byte, pointer, 1);
}

static cu_result do_synchronize(void)
{
	return cu.cuStreamSynchronize(other_stream);
}

static cu_result do_nothing(void)
{
	return CU_OK;
}

static cu_result do_retain_primary(void)
{
	cu_context context;

	return cu.cuDevicePrimaryCtxRetain(&context, facts_device);
}

#define CASES(C) \
	C(do_nothing, "nothing") \
	C(do_alloc, "cuMemAlloc") \
	C(do_free, "cuMemFree") \
	C(do_free_async, "cuMemFreeAsync on another stream") \
	C(do_free_host, "cuMemFreeHost") \
	C(do_query_stream, "cuStreamQuery of another stream") \
	C(do_synchronize_event, "cuEventSynchronize") \
	C(do_address_range, "cuMemGetAddressRange") \
	C(do_pointer_attribute, "cuPointerGetAttribute") \
	C(do_mem_info, "cuMemGetInfo") \
	C(do_get_handle, "cuIpcGetMemHandle") \
	C(do_open_handle, "cuIpcOpenMemHandle, cuIpcCloseMemHandle") \
	C(do_create_event, "cuEventCreate") \
	C(do_query_event, "cuEventQuery of one recorded before") \
	C(do_record_event, "cuEventRecord on another stream") \
	C(do_record_and_query, "cuEventRecord on another stream, cuEventQuery") \
	C(do_record_legacy, "cuEventRecord on the legacy stream") \
	C(do_is_capturing_legacy, "cuStreamIsCapturing of the legacy stream") \
	C(do_create, "cuMemCreate") \
	C(do_export, "cuMemExportToShareableHandle") \
	C(do_map_unmap, "cuMemAddressReserve, cuMemMap, cuMemSetAccess, cuMemUnmap") \
	C(do_alloc_async, "cuMemAllocAsync on another stream") \
	C(do_host_alloc, "cuMemHostAlloc") \
	C(do_host_register, "cuMemHostRegister") \
	C(do_stream_create, "cuStreamCreate") \
	C(do_copy, "cuMemcpyDtoH") \
	C(do_synchronize, "cuStreamSynchronize of another stream") \
	C(do_retain_primary, "cuDevicePrimaryCtxRetain")

static const struct {
	const char *what;
	cu_result (*run)(void);
} cases[] = {
#define C(function, text) {text, function},
    CASES(C)
#undef C
};

struct thing {
	cu_result (*run)(void);
	bool relaxed;
	cu_result result;
};

static void *run_it(void *argument)
{
	struct thing *it = argument;
	cu_capture_mode mode = CU_CAPTURE_RELAXED;

	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(facts_context));
	if (it->relaxed)
		facts_must("cuThreadExchangeStreamCaptureMode",
			   cu.cuThreadExchangeStreamCaptureMode(&mode));
	it->result = it->run();
	if (it->relaxed)
		facts_must("cuThreadExchangeStreamCaptureMode",
			   cu.cuThreadExchangeStreamCaptureMode(&mode));
	return NULL;
}

static cu_stream capture_begin(void)
{
	cu_stream stream;

	facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	facts_must("cuStreamBeginCapture", cu.cuStreamBeginCapture_v2(stream, CU_CAPTURE_GLOBAL));
	facts_must("a captured copy", cu.cuMemcpyAsync(pointer, pointer + MIB, 1024, stream));
	return stream;
}

static cu_result capture_end(cu_stream stream)
{
	cu_graph graph = NULL;
	cu_result result = cu.cuStreamEndCapture(stream, &graph);

	if (graph)
		cu.cuGraphDestroy(graph);
	cu.cuStreamDestroy_v2(stream);
	return result;
}

static void export_one(int from, int to)
{
	cu_ipc_mem_handle handle;
	char word;

	facts_start();
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, BLOCK));
	facts_must("cuIpcGetMemHandle", cu.cuIpcGetMemHandle(&handle, pointer));
	facts_send(to, &handle, sizeof(handle));
	facts_receive(from, &word, 1);
}

static void prepare(void)
{
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&prepared.plain, BLOCK));
	facts_must("cuMemAllocAsync", cu.cuMemAllocAsync(&prepared.pooled, BLOCK, other_stream));
	facts_must("cuMemHostAlloc", cu.cuMemHostAlloc(&prepared.host, 4096, 0));
	facts_must("cuStreamSynchronize", cu.cuStreamSynchronize(other_stream));
}

enum who { OTHER_THREAD, OTHER_RELAXED, SAME_RELAXED };

static void ask_all(enum who who)
{
	struct facts_peer peer;
	cu_mem_prop prop;

	facts_peer_start(&peer, export_one);
	facts_start();
	if (!facts_receive(peer.from, &foreign_handle, sizeof(foreign_handle)))
		return;
	prop = facts_prop(CU_HANDLE_POSIX_FD);
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, BLOCK));
	facts_must("cuMemCreate", cu.cuMemCreate(&vmm_handle, BLOCK, &prop, 0));
	facts_must("cuStreamCreate", cu.cuStreamCreate(&other_stream, CU_STREAM_NONBLOCKING));
	facts_must("cuEventCreate", cu.cuEventCreate(&recorded_event, CU_EVENT_NO_TIMING));
	facts_must("cuEventRecord", cu.cuEventRecord(recorded_event, other_stream));
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct thing it = {.run = cases[i].run, .relaxed = who != OTHER_THREAD};
		pthread_t thread;
		cu_stream stream;

		prepare();
		stream = capture_begin();
		if (who == SAME_RELAXED) {
			run_it(&it);
		} else {
			facts_must("pthread_create", pthread_create(&thread, NULL, run_it, &it));
			pthread_join(thread, NULL);
		}
		facts_say(cases[i].what, "%s; the capture ends with %s", facts_code(it.result),
			  facts_code(capture_end(stream)));
	}
	facts_ask("the context at the end", cu.cuCtxSynchronize());
	facts_peer_end(&peer);
}

void facts_capture(void)
{
	ask_all(OTHER_THREAD);
}

void facts_capture_relaxed(void)
{
	ask_all(OTHER_RELAXED);
}

void facts_capture_same_thread(void)
{
	ask_all(SAME_RELAXED);
}

void facts_capture_stream(void)
{
	cu_ipc_mem_handle handle;
	cu_deviceptr before, within = 0;
	cu_stream stream;

	facts_start();
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&pointer, BLOCK));
	facts_must("cuMemAllocAsync", cu.cuMemAllocAsync(&before, BLOCK, NULL));
	facts_must("cuStreamSynchronize", cu.cuStreamSynchronize(NULL));
	stream = capture_begin();
	facts_ask("cuMemAllocAsync on the capturing stream",
		  cu.cuMemAllocAsync(&within, BLOCK, stream));
	facts_ask("  cuMemFreeAsync of that on it", cu.cuMemFreeAsync(within, stream));
	facts_ask("  the capture ends with", capture_end(stream));
	stream = capture_begin();
	cu.cuMemAllocAsync(&within, BLOCK, stream);
	facts_ask("cuIpcGetMemHandle of memory that the capture allocates",
		  cu.cuIpcGetMemHandle(&handle, within));
	facts_ask("  the capture ends with", capture_end(stream));
	stream = capture_begin();
	facts_ask("cuMemFreeAsync of pool memory on the capturing stream",
		  cu.cuMemFreeAsync(before, stream));
	facts_ask("  the capture ends with", capture_end(stream));
	facts_ask("  cuMemFreeAsync of it afterwards", cu.cuMemFreeAsync(before, NULL));
	stream = capture_begin();
	facts_ask("cuMemFreeAsync of cuMemAlloc memory on the capturing stream",
		  cu.cuMemFreeAsync(pointer, stream));
	facts_ask("  the capture ends with", capture_end(stream));
	facts_ask("  cuMemFree of it afterwards", cu.cuMemFree_v2(pointer));
	facts_ask("the context at the end", cu.cuCtxSynchronize());
}
