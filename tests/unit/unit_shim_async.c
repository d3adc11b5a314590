/* SPDX-License-Identifier: MIT */
/* Attached buffers that the program frees in stream order. */
#include "unit.h"

#include "base/monotonic.h"
#include "preloaded.h"
#include "raw.h"
#include "preload/shim_async.h"

#define BUFFERS 12 /* more than a single call gives back */
#define SIZE BLOCK

static const void *const CALLER = (const void *)preloaded;

static uint32_t *flags; /* in host memory: 1 lets the stream of that number continue */
static cu_stream streams[2];
static cu_deviceptr pointers[BUFFERS];

/* Share b0, b1 ... from another process, as mapped memory. Its end waits only for what the shim
 * waits for, whereas cuIpcCloseMemHandle waits for all streams. */
static void share_one(struct gpushare_session *session, const char *name)
{
	const cu_mem_prop prop = {
	    .type = CU_ALLOCATION_PINNED,
	    .requestedHandleTypes = CU_HANDLE_POSIX_FD,
	    .location = {.type = CU_LOCATION_DEVICE},
	};
	const cu_mem_access access = {.location = prop.location, .flags = CU_ACCESS_READ_WRITE};
	const struct driver *driver = part_driver();
	struct gpushare_buffer *buffer;
	cu_mem_handle handle;
	cu_deviceptr pointer;

	CHECK(driver->cuMemCreate(&handle, SIZE, &prop, 0) == CU_OK);
	CHECK(driver->cuMemAddressReserve(&pointer, SIZE, 0, 0, 0) == CU_OK);
	CHECK(driver->cuMemMap(pointer, SIZE, 0, handle, 0) == CU_OK);
	CHECK(driver->cuMemSetAccess(pointer, SIZE, &access, 1) == CU_OK);
	OK(gpushare_share(session, name, pointer, SIZE, &buffer));
}

static void produce(void)
{
	struct gpushare_session *session = part_session();
	char name[8];

	for (int i = 0; i < BUFFERS; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		share_one(session, name);
	}
	say();
	hear();
	OK(gpushare_close(session));
}

static unsigned int attachers(int number)
{
	struct gpushare_info info;
	char name[8];

	snprintf(name, sizeof(name), "b%d", number);
	CHECK(preloaded_finds(name, &info));
	return info.attachers;
}

static unsigned int attached(void)
{
	unsigned int count = 0;

	for (int i = 0; i < BUFFERS; i++)
		count += attachers(i);
	return count;
}

/* Wait for that count: if the call concerned other memory, the registry hears of the detach a
 * moment later. */
static bool attached_is(unsigned int count)
{
	for (int tries = 0; tries < 500 && attached() != count; tries++)
		poll(NULL, 0, 10);
	return attached() == count;
}

static void make_streams(void)
{
	const struct driver *driver = part_driver();
	void *memory;

	CHECK(driver->cuMemHostAlloc(&memory, 4096, CU_HOST_ALLOC_PORTABLE) == CU_OK);
	flags = memset(memory, 0, 4096);
	for (int i = 0; i < 2; i++)
		CHECK(driver->cuStreamCreate(&streams[i], CU_STREAM_NONBLOCKING) == CU_OK);
}

static void stall(int stream)
{
	__atomic_store_n(&flags[stream], 0, __ATOMIC_SEQ_CST);
	CHECK(part_driver()->cuStreamWaitValue32_v2(streams[stream], (uintptr_t)&flags[stream], 1,
						    CU_WAIT_GEQ) == CU_OK);
}

static void go(int stream)
{
	__atomic_store_n(&flags[stream], 1, __ATOMIC_SEQ_CST);
}

/* Attach the first `count` buffers. */
static void begin(int count)
{
	preloaded(NULL, "b%i:nth=1-12");
	make_streams();
	hear();
	for (int i = 0; i < count; i++)
		CHECK(preloaded_alloc(&pointers[i], SIZE) == CU_OK);
	CHECK(attached() == (unsigned int)count && !async_any());
}

static cu_result free_in(int number, int stream)
{
	cu_result result;

	errno = 77;
	result = buffers_free_async(part_driver()->cuMemFreeAsync, pointers[number],
				    streams[stream], streams[stream]);
	CHECK(errno == 77);
	return result;
}

static void end(void)
{
	CHECK(!async_any() && !live_any() && attached_is(0));
	say();
}

/* Each free waits for its own stream; the memory stays while that stream has work. */
static void by_stream(void)
{
	begin(3);
	stall(0);
	CHECK(free_in(0, 0) == CU_OK && free_in(1, 1) == CU_OK && free_in(2, 0) == CU_OK);
	CHECK(async_any() && attachers(0) == 1 && attachers(1) == 0 && attachers(2) == 1);
	CHECK(async_holds(pointers[0]) && !async_holds(pointers[1]) && async_holds(pointers[2]));
	CHECK(!live_any() && preloaded_works(pointers[0], SIZE));
	CHECK(!preloaded_works(pointers[1], SIZE));
	/* a second free fails, in stream order or not */
	CHECK(free_in(0, 1) == CU_INVALID_VALUE && preloaded_free(pointers[2]) == CU_INVALID_VALUE);
	async_sweep(true);
	CHECK(attachers(0) == 1 && attachers(2) == 1);
	go(0);
	async_sweep(true);
	CHECK(!preloaded_works(pointers[0], SIZE));
	end();
}

/* A free waits for the work that its stream has at that time, and not for later work. */
static void by_time(void)
{
	begin(2);
	CHECK(free_in(0, 0) == CU_OK);
	CHECK(attachers(0) == 0);
	stall(0);
	CHECK(free_in(1, 0) == CU_OK && attachers(1) == 1);
	async_sweep(true);
	CHECK(attachers(1) == 1);
	go(0);
	CHECK(preloaded_free(12345) != CU_OK); /* any later free of the program gives it back */
	end();
}

static void a_few_at_a_time(void)
{
	cu_deviceptr ordinary;

	begin(BUFFERS);
	stall(0);
	for (int i = 0; i < BUFFERS; i++)
		CHECK(free_in(i, 0) == CU_OK);
	CHECK(attached() == BUFFERS);
	go(0);
	CHECK(preloaded_alloc(&ordinary, SIZE) == CU_OK);
	CHECK(attached_is(BUFFERS - 8) && attachers(0) == 0 && attachers(BUFFERS - 1) == 1);
	CHECK(preloaded_free(ordinary) == CU_OK);
	end();
}

static void test_order(void **state)
{
	stage_play(produce, by_stream);
	stage_play(produce, by_time);
	stage_play(produce, a_few_at_a_time);
}

/* Report a lack of memory while a free waits. */
static cu_result short_of_memory(cu_deviceptr *pointer, size_t size)
{
	return async_any() ? CU_OUT_OF_MEMORY : part_driver()->cuMemAlloc_v2(pointer, size);
}

static void drained(void)
{
	cu_deviceptr pointer = 16;
	int64_t began_ms;

	raw_set_limit(200);
	begin(BUFFERS);
	stall(0);
	stall(1);
	for (int i = 0; i < BUFFERS; i++)
		CHECK(free_in(i, i % 2) == CU_OK);
	began_ms = monotonic_ms();
	CHECK(buffers_alloc(short_of_memory, CALLER, &pointer, SIZE) == CU_OUT_OF_MEMORY);
	CHECK(monotonic_ms() - began_ms >= raw_limit_ms(200) &&
	      monotonic_ms() - began_ms < raw_limit_ms(5000));
	CHECK(pointer == 16 && attached() == BUFFERS);
	go(1);
	CHECK(async_drain(monotonic_ms())); /* the half whose stream is done */
	CHECK(attached() == BUFFERS / 2 && !async_holds(pointers[1]) && async_holds(pointers[0]));
	go(0);
	CHECK(buffers_alloc(short_of_memory, CALLER, &pointer, SIZE) == CU_OK);
	CHECK(preloaded_free(pointer) == CU_OK && !async_drain(monotonic_ms()));
	end();
}

/* The end of a context ends its own waiting frees, and no others. */
static void forgotten(void)
{
	const struct driver *driver;
	cu_context primary, other;

	begin(1);
	driver = part_driver();
	CHECK(driver->cuCtxGetCurrent(&primary) == CU_OK);
	stall(0);
	CHECK(free_in(0, 0) == CU_OK);
	CHECK(driver->cuCtxCreate_v2(&other, 0, 0) == CU_OK);
	CHECK(driver->cuStreamCreate(&streams[1], CU_STREAM_NONBLOCKING) == CU_OK);
	CHECK(preloaded_alloc(&pointers[1], SIZE) == CU_OK && attachers(1) == 1);
	stall(1);
	CHECK(free_in(1, 1) == CU_OK && attachers(1) == 1);
	CHECK(buffers_context_destroy(driver->cuCtxDestroy_v2, other) == CU_OK);
	CHECK(attachers(1) == 0 && attachers(0) == 1);
	CHECK(async_any() && !async_holds(pointers[1]) && async_holds(pointers[0]));
	CHECK(driver->cuCtxSetCurrent(primary) == CU_OK);
	go(0);
	async_sweep(true);
	end();
}

static void test_forget(void **state)
{
	stage_play(produce, forgotten);
}

static cu_result fail_create(cu_event *event, unsigned int event_flags)
{
	return CU_UNKNOWN;
}

static cu_result fail_record(cu_event event, cu_stream stream)
{
	return CU_INVALID_HANDLE;
}

static cu_result fail_push(cu_context context)
{
	return CU_UNKNOWN;
}

static cu_result fail_synchronize(cu_stream stream)
{
	return CU_ILLEGAL_ADDRESS;
}

/* If no event can be made or used, the free waits for the stream instead. */
static void without_events(void)
{
	struct driver *table, whole;

	begin(6);
	table = preloaded_table();
	whole = *table;
	for (int i = 0; i < 5; i++) {
		if (i == 0)
			table->cuEventCreate = NULL;
		else if (i == 1)
			table->cuEventCreate = fail_create;
		else if (i == 2)
			table->cuEventRecord = fail_record;
		else if (i == 3)
			table->cuCtxPushCurrent_v2 = fail_push;
		else
			table->cuEventQuery = NULL;
		CHECK(free_in(i, 0) == CU_OK && attachers(i) == 0 && !async_any());
		*table = whole;
	}
	/* if that fails too, the buffer stays attached */
	table->cuEventCreate = NULL;
	table->cuStreamSynchronize = fail_synchronize;
	CHECK(free_in(5, 0) == CU_ILLEGAL_ADDRESS && attachers(5) == 1 && live_any());
	CHECK(preloaded_works(pointers[5], SIZE));
	*table = whole;
	CHECK(free_in(5, 0) == CU_OK);
	end();
}

static void test_without_events(void **state)
{
	stage_play(produce, without_events);
}

static struct driver whole_table;

/* Act as another thread that lists everything for a resync at this moment. */
static void tell_all(void)
{
	struct resync told = {.calls = NULL};

	live_resync.readings++;
	CHECK(live_list(&told) && async_list(&told) && !told.told.count);
	live_resync.readings++;
}

static cu_result record_meanwhile(cu_event event, cu_stream stream)
{
	tell_all();
	return whole_table.cuEventRecord(event, stream);
}

static cu_result destroy_in_vain(cu_context context)
{
	tell_all();
	return CU_UNKNOWN;
}

/* A buffer that moves between two tables during a resync is on neither list. The shim notes that
 * and repeats the resync. */
static void on_its_way(void)
{
	struct driver *table;
	cu_context context;

	begin(1);
	table = preloaded_table();
	whole_table = *table;
	CHECK(table->cuCtxGetCurrent(&context) == CU_OK);
	stall(0);
	resync_missed(&live_resync);
	table->cuEventRecord = record_meanwhile;
	CHECK(free_in(0, 0) == CU_OK && async_any() && resync_missed(&live_resync));
	*table = whole_table;
	CHECK(buffers_context_destroy(destroy_in_vain, context) == CU_UNKNOWN);
	CHECK(async_any() && resync_missed(&live_resync));
	go(0);
	async_sweep(true);
	end();
}

static void test_on_its_way(void **state)
{
	stage_play(produce, on_its_way);
}

STAGE_MAIN(STAGED(test_order), SCENE(produce, drained), STAGED(test_forget),
	   STAGED(test_on_its_way), STAGED(test_without_events))
