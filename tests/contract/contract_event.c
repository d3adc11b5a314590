/* SPDX-License-Identifier: MIT */
/* Interprocess events, and how streams wait for them. */
#include "capture.h"

#define SIZE (3 * CONTRACT_BLOCK)
#define VALUE 7
#define EVENTS 16384 /* in one process: more than some drivers have */
#define LOOKS 100    /* for a second: check that a blocked event stays blocked */
#define LOOK_US 10000

struct offer {
	cu_ipc_event_handle event;
	cu_ipc_mem_handle memory;
};

static const struct driver *driver;
static struct offer offered;

static void start(void)
{
	driver = contract_context(0);
	if (!driver->cuIpcGetEventHandle || !driver->cuIpcOpenEventHandle)
		contract_skip("this driver has no interprocess events");
}

static cu_event shared_event(void)
{
	cu_event event = NULL;

	EXPECT(CU_OK, driver->cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING));
	return event;
}

static void send_event(int peer, cu_event event)
{
	EXPECT(CU_OK, driver->cuIpcGetEventHandle(&offered.event, event));
	contract_send(peer, &offered, sizeof(offered));
}

static cu_event receive_event(int peer)
{
	cu_event event = NULL;

	contract_receive(peer, &offered, sizeof(offered));
	EXPECT(CU_OK, driver->cuIpcOpenEventHandle(&event, offered.event));
	return event;
}

static void owner_fills(int peer)
{
	unsigned char *bytes;
	cu_deviceptr memory;
	atomic_uint *word;
	cu_stream stream;
	cu_event event;

	start();
	event = shared_event();
	memory = contract_filled(SIZE, VALUE - 1);
	EXPECT(CU_OK, driver->cuIpcGetMemHandle(&offered.memory, memory));
	bytes = memset(contract_pinned(SIZE), VALUE, SIZE);
	stream = contract_stream();
	word = contract_hold_up(stream);
	EXPECT(CU_OK, driver->cuMemcpyHtoDAsync_v2(memory, bytes, SIZE, stream));
	EXPECT(CU_OK, driver->cuEventRecord(event, stream));
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	send_event(peer, event);
	contract_hear(peer); /* the importer has seen CU_NOT_READY, and its stream waits */
	atomic_store(word, 1);
	contract_hear(peer);
	EXPECT(CU_OK, driver->cuEventQuery(event));
	EXPECT(CU_OK, driver->cuEventDestroy_v2(event));
}

static void importer_copies(int peer)
{
	cu_event event, behind;
	cu_deviceptr memory = 0;
	unsigned char *bytes;
	cu_stream stream;

	start();
	event = receive_event(peer);
	EXPECT(CU_OK,
	       driver->cuIpcOpenMemHandle_v2(&memory, offered.memory, CU_IPC_LAZY_PEER_ACCESS));
	bytes = contract_pinned(SIZE);
	stream = contract_stream();
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	EXPECT(CU_OK, driver->cuStreamWaitEvent(stream, event, 0));
	EXPECT(CU_OK, driver->cuMemcpyDtoHAsync_v2(bytes, memory, SIZE, stream));
	behind = contract_recorded(driver, stream);
	EXPECT(CU_NOT_READY, driver->cuEventQuery(behind));
	contract_tell(peer);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	for (size_t i = 0; i < SIZE; i++)
		CHECK(bytes[i] == VALUE);
	EXPECT(CU_OK, driver->cuEventQuery(event));
	EXPECT(CU_OK, driver->cuEventSynchronize(event));
	EXPECT(CU_OK, driver->cuEventDestroy_v2(event));
	contract_tell(peer);
}

/* As CUDA documents, an opened event behaves like an event of the process itself. */
static void owner_waits(int peer)
{
	cu_stream stream;
	cu_event event;

	start();
	event = shared_event();
	EXPECT(CU_OK, driver->cuEventQuery(event)); /* never recorded: nothing to wait for */
	send_event(peer, event);
	contract_hear(peer);
	EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
	stream = contract_stream();
	EXPECT(CU_OK, driver->cuStreamWaitEvent(stream, event, 0));
	contract_tell(peer);
	EXPECT(CU_OK, driver->cuStreamSynchronize(stream));
	EXPECT(CU_OK, driver->cuEventQuery(event));
	contract_tell(peer);
}

static void importer_records(int peer)
{
	cu_stream stream;
	atomic_uint *word;
	cu_event event;

	start();
	event = receive_event(peer);
	EXPECT(CU_OK, driver->cuEventQuery(event));
	stream = contract_stream();
	word = contract_hold_up(stream);
	EXPECT(CU_OK, driver->cuEventRecord(event, stream));
	contract_tell(peer);
	contract_hear(peer);
	atomic_store(word, 1);
	contract_hear(peer);
	EXPECT(CU_OK, driver->cuEventDestroy_v2(event));
}

static void owner_is_killed(int peer)
{
	cu_stream stream;
	cu_event event;

	start();
	event = shared_event();
	stream = contract_stream();
	contract_hold_up(stream);
	EXPECT(CU_OK, driver->cuEventRecord(event, stream));
	send_event(peer, event);
	contract_hear(peer); /* the importer's stream waits for the event */
	raise(SIGKILL);
}

static cu_event behind_a_wait_for(cu_event event)
{
	cu_stream stream = contract_stream();

	EXPECT(CU_OK, driver->cuStreamWaitEvent(stream, event, 0));
	return contract_recorded(driver, stream);
}

/* The streams stay blocked. The importer ends all the same: _exit() waits for no stream. */
static void importer_stands(int peer)
{
	cu_event event, again = NULL, before, after;

	start();
	event = receive_event(peer);
	before = behind_a_wait_for(event);
	contract_tell(peer);
	contract_await_owner_end();
	after = behind_a_wait_for(event);
	for (int look = 0; look < LOOKS; look++) {
		EXPECT(CU_NOT_READY, driver->cuEventQuery(event));
		EXPECT(CU_NOT_READY, driver->cuEventQuery(before));
		EXPECT(CU_NOT_READY, driver->cuEventQuery(after));
		usleep(LOOK_US);
	}
	EXPECT(CU_OK, driver->cuIpcOpenEventHandle(&again, offered.event));
}

static void with_timing(int peer)
{
	cu_event event = NULL;

	start();
	EXPECT(CU_INVALID_VALUE, driver->cuEventCreate(&event, CU_EVENT_SHARED));
	EXPECT(CU_INVALID_VALUE,
	       driver->cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_WAITS_BLOCKING));
	EXPECT(CU_OK, driver->cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING |
							CU_EVENT_WAITS_BLOCKING));
}

static void ones_own(int peer)
{
	cu_event opened = NULL;

	start();
	EXPECT(CU_OK, driver->cuIpcGetEventHandle(&offered.event, shared_event()));
	EXPECT(CU_INVALID_CONTEXT, driver->cuIpcOpenEventHandle(&opened, offered.event));
}

static void one_too_many(int peer)
{
	cu_event event = NULL, last = NULL;
	cu_result result = CU_OK;

	start();
	for (int i = 0; i < EVENTS && result == CU_OK; i++) {
		last = event;
		result = driver->cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING);
	}
	if (result == CU_OK)
		return;
	EXPECT(CU_OUT_OF_MEMORY, result);
	EXPECT(CU_OK, driver->cuEventCreate(&event, CU_EVENT_NO_TIMING));
	EXPECT(CU_OK, driver->cuEventDestroy_v2(last));
	shared_event();
}

static void owner_stays(int peer)
{
	start();
	send_event(peer, shared_event());
	contract_hear(peer);
}

static void importer_elsewhere(int peer)
{
	cu_event event = NULL;

	contract_receive(peer, &offered, sizeof(offered));
	contract_leave_namespaces(0);
	start();
	EXPECT(CU_MAP_FAILED, driver->cuIpcOpenEventHandle(&event, offered.event));
	contract_tell(peer);
}

static void in_a_capture(int peer)
{
	cu_event before, marked;
	cu_stream stream;
	atomic_uint *word;

	start();
	before = shared_event();
	marked = shared_event();
	stream = contract_stream();
	word = contract_hold_up(stream);
	EXPECT(CU_OK, driver->cuEventRecord(before, stream));
	capture_begin(CU_CAPTURE_RELAXED);
	EXPECT(CU_STREAM_CAPTURE_UNSUPPORTED, driver->cuEventRecord(marked, capture_stream));
	EXPECT(CU_OK, driver->cuEventQuery(marked));
	capture_ends_well();
	capture_begin(CU_CAPTURE_RELAXED);
	EXPECT(CU_STREAM_CAPTURE_UNSUPPORTED, driver->cuStreamWaitEvent(capture_stream, before, 0));
	capture_ends_invalidated();
	atomic_store(word, 1);
}

UNIT_MAIN(PAIR(the_importer_sees_it_and_its_copies_wait, owner_fills, importer_copies),
	  PAIR(the_importer_may_record_it_too, owner_waits, importer_records),
	  CONTRACT_TEST(what_a_killed_process_recorded_is_never_done, .owner = owner_is_killed,
			.importer = importer_stands, .owner_is_killed = true),
	  ALONE(one_that_keeps_time_is_invalid_value, with_timing),
	  ALONE(opening_ones_own_is_invalid_context, ones_own),
	  ALONE(one_too_many_is_out_of_memory, one_too_many),
	  PAIR(from_another_dev_shm_it_is_map_failed, owner_stays, importer_elsewhere),
	  ALONE(a_capture_takes_none, in_a_capture))
