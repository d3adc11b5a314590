/* SPDX-License-Identifier: MIT */
/* Named events between two processes: the owner's end, threads, invalid arguments, failures of each
 * driver call, captures. */
#include "unit.h"

#include "held.h"
#include "raw.h"
#include "stage.h"

static struct gpushare_event *create(struct gpushare_session *session, const char *name)
{
	struct gpushare_event *event = NULL;

	OK(gpushare_event_create(session, name, -1, 0, &event));
	CHECK(event && gpushare_event_handle(event));
	return event;
}

static struct gpushare_event *open_one(struct gpushare_session *session, const char *name)
{
	const struct gpushare_event_options options = {.wait_ms = 20000};
	struct gpushare_event *event = NULL;

	OK(gpushare_event_open(session, name, &options, &event));
	CHECK(event && gpushare_event_handle(event));
	return event;
}

static void record_held(struct gpushare_event *event)
{
	held_stop();
	OK(gpushare_event_record(event, held_stream()));
}

/* Its session closes with one event done and others not. */
static void leaver(void)
{
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_event *done = create(session, "done"), *left = create(session, "left"),
			      *unlinked = create(session, "unlinked");

	OK(gpushare_event_record(done, NULL));
	record_held(left);
	OK(gpushare_event_record(unlinked, held_stream()));
	say();
	hear();
	OK(gpushare_unlink(
	    other, "unlinked")); /* an unlink changes nothing for processes that have it open */
	say();
	hear();
	OK(gpushare_close(session));
	say();
	hear();
	held_let_go();
	OK(gpushare_close(other));
}

static void left_behind(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *done, *left, *unlinked;
	long long began;

	hear();
	done = open_one(session, "done");
	left = open_one(session, "left");
	unlinked = open_one(session, "unlinked");
	say();
	hear();
	FAILS(E_NOT_READY, "", gpushare_event_query(unlinked));
	FAILS(E_TIMED_OUT, "", gpushare_event_wait_host(unlinked, 60));
	say();
	began = raw_now_ms();
	FAILS(E_OWNER_GONE, "'left' was recorded", gpushare_event_wait_host(left, 20000));
	CHECK(raw_now_ms() - began < 1000 + raw_slack_ms());
	hear();
	FAILS(E_OWNER_GONE, "withdrew", gpushare_event_query(left));
	FAILS(E_OWNER_GONE, "left", gpushare_event_wait(left, NULL));
	FAILS(E_OWNER_GONE, "unlinked", gpushare_event_query(unlinked));
	FAILS(E_OWNER_GONE, "unlinked", gpushare_event_wait_host(unlinked, -1));
	OK(gpushare_event_query(done));
	OK(gpushare_event_wait(done, NULL));
	OK(gpushare_event_wait_host(done, 0));
	say();
	OK(gpushare_close(session));
}

#define THREADS 4
#define ROUNDS 100

static struct gpushare_session *shared_session;

/* Use "many", as the other threads do at the same time, and an event of the thread's own. */
static void *work(void *name)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct gpushare_event *event = open_one(shared_session, "many");
		struct gpushare_event *mine = create(shared_session, name), *same;

		OK(gpushare_event_record(event, NULL));
		OK(gpushare_event_wait(event, NULL));
		OK(gpushare_event_wait_host(event, 20000));
		same = open_one(shared_session, name);
		OK(gpushare_event_record(same, NULL));
		OK(gpushare_event_close(mine));
		OK(gpushare_event_wait_host(same, 20000));
		OK(gpushare_event_close(same));
		OK(gpushare_event_close(event));
	}
	return NULL;
}

static void keeper(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_info info;

	create(session, "many");
	say();
	hear();
	OK(gpushare_stat(session, "many", &info));
	CHECK(!info.attachers);
	OK(gpushare_close(session));
}

static void threads(void)
{
	static char names[THREADS][2] = {"a", "b", "c", "d"};
	pthread_t thread[THREADS];

	hear();
	shared_session = part_session();
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, work, names[i]));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	say();
	OK(gpushare_close(shared_session));
}

static struct gpushare_event *const UNTOUCHED = (struct gpushare_event *)(uintptr_t)16;

static void bad_inputs(void)
{
	const struct gpushare_event_options far = {.on_device = 1, .device = 9};
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED, *good;
	struct gpushare_buffer *buffer = NULL;
	struct gpushare_info info;

	FAILS(E_INVALID, "session", gpushare_event_create(NULL, "e", -1, 0, &event));
	FAILS(E_NAME, "a b", gpushare_event_create(session, "a b", -1, 0, &event));
	FAILS(E_NAME, "NULL", gpushare_event_create(session, NULL, -1, 0, &event));
	FAILS(E_INVALID, "out_event", gpushare_event_create(session, "e", -1, 0, NULL));
	FAILS(E_INVALID, "device 9", gpushare_event_create(session, "e", 9, 0, &event));
	FAILS(E_INVALID, "keep time",
	      gpushare_event_create(session, "e", -1, CU_EVENT_SHARED, &event));
	FAILS(E_INVALID, "keep time",
	      gpushare_event_create(session, "e", -1, CU_EVENT_WAITS_BLOCKING, &event));
	FAILS(E_INVALID, "0x8",
	      gpushare_event_create(session, "e", -1, CU_EVENT_NO_TIMING | 8, &event));
	FAILS(E_NAME, "", gpushare_event_open(session, "", NULL, &event));
	FAILS(E_INVALID, "session", gpushare_event_open(NULL, "e", NULL, &event));
	FAILS(E_INVALID, "out_event", gpushare_event_open(session, "e", NULL, NULL));
	FAILS(E_NOT_FOUND, "e", gpushare_event_open(session, "e", NULL, &event));
	FAILS(E_INVALID, "event", gpushare_event_record(NULL, NULL));
	FAILS(E_INVALID, "event", gpushare_event_wait(NULL, NULL));
	FAILS(E_INVALID, "event", gpushare_event_query(NULL));
	FAILS(E_INVALID, "event", gpushare_event_wait_host(NULL, -1));
	FAILS(E_INVALID, "event", gpushare_event_info(NULL, &info));
	FAILS(E_INVALID, "visit", gpushare_list_events(session, NULL, NULL, NULL));
	CHECK(event == UNTOUCHED && !gpushare_event_handle(NULL));
	OK(gpushare_event_close(NULL));
	OK(gpushare_event_create(session, "e", 0,
				 CU_EVENT_NO_TIMING | CU_EVENT_WAITS_BLOCKING | CU_EVENT_SHARED,
				 &good));
	FAILS(E_INVALID, "out_info", gpushare_event_info(good, NULL));
	FAILS(E_EXISTS, "e", gpushare_event_create(session, "e", -1, 0, &event));
	FAILS(E_EXISTS, "e", gpushare_alloc(session, "e", -1, 1, &buffer));
	FAILS(E_INVALID, "gpushare_event_open()", gpushare_attach(session, "e", NULL, &buffer));
	FAILS(E_INVALID, "device 9", gpushare_event_open(session, "e", &far, &event));
	OK(gpushare_alloc(session, "b", -1, 1, &buffer));
	FAILS(E_INVALID, "gpushare_attach()", gpushare_event_open(session, "b", NULL, &event));
	FAILS(E_INVALID, "stream", gpushare_event_record(good, (void *)&info));
	FAILS(E_INVALID, "stream", gpushare_event_wait(good, (void *)&info));
	CHECK(event == UNTOUCHED);
	OK(gpushare_event_query(good));
	OK(gpushare_close(session));
}

/* Events work with any current context. With a stream of another context than the event's, a real
 * driver crashes, so the API refuses that. */
static void contexts(void)
{
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session();
	struct gpushare_event *event, *primary;
	cu_context mine, now;
	cu_stream stream;

	primary = create(session, "primary");
	CHECK(driver->cuCtxCreate_v2(&mine, 0, 0) == CU_OK);
	event = create(session, "mine");
	CHECK(driver->cuStreamCreate(&stream, 0) == CU_OK);
	OK(gpushare_event_record(event, stream));
	OK(gpushare_event_record(primary, NULL));
	FAILS(E_INVALID, "context", gpushare_event_record(primary, stream));
	FAILS(E_INVALID, "context", gpushare_event_wait(primary, stream));
	FAILS(E_INVALID, "context", gpushare_event_wait(primary, NULL));
	for (now = mine; now;) { /* each call pops one context */
		CHECK(driver->cuCtxSetCurrent(NULL) == CU_OK);
		CHECK(driver->cuCtxGetCurrent(&now) == CU_OK);
	}
	OK(gpushare_event_record(event, stream));
	OK(gpushare_event_wait(event, NULL));
	OK(gpushare_event_wait_host(event, 1000));
	CHECK(driver->cuCtxGetCurrent(&now) == CU_OK && !now);
	create(session, "without");
	CHECK(driver->cuCtxGetCurrent(&now) == CU_OK && !now);
	CHECK(driver->cuCtxDestroy_v2(mine) == CU_OK);
	FAILS(E_CUDA, "context", gpushare_event_query(event));
	FAILS(E_CUDA, "context", gpushare_event_record(event, NULL));
	OK(gpushare_event_close(event)); /* the context's end destroyed the event */
	OK(gpushare_close(session));
}

/* No event call invalidates a stream capture. */
static void captures(void)
{
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session(), *other = part_session();
	struct gpushare_event *before, *marked, *same;
	cu_stream stream;
	cu_graph graph;

	before = create(session, "before");
	held_stop();
	OK(gpushare_event_record(before, held_stream()));
	CHECK(driver->cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	CHECK(driver->cuStreamBeginCapture_v2(stream, (cu_capture_mode)CU_CAPTURE_GLOBAL) == CU_OK);
	marked = create(session, "marked");
	OK(gpushare_event_open(other, "marked", NULL, &same));
	FAILS(E_NOT_READY, "", gpushare_event_query(before));
	FAILS(E_TIMED_OUT, "", gpushare_event_wait_host(before, 2));
	FAILS(E_NOT_SUPPORTED, "captured", gpushare_event_record(marked, stream));
	OK(gpushare_event_query(marked));
	FAILS(E_NOT_SUPPORTED, "captured", gpushare_event_wait(before, stream));
	OK(gpushare_event_close(same));
	CHECK(driver->cuStreamEndCapture(stream, &graph) == CU_OK);
	OK(gpushare_event_record(marked, stream));
	OK(gpushare_event_query(marked));
	held_let_go();
	OK(gpushare_close(other));
	OK(gpushare_close(session));
}

/* The per-thread default stream belongs to the context in which it is used. Event calls use it in
 * the event's context, whichever is current. */
static void captures_own(void)
{
	const cu_stream own = (cu_stream)(uintptr_t)2; /* CU_STREAM_PER_THREAD */
	const struct driver *driver = part_driver();
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = create(session, "e");
	cu_context context, none;
	cu_graph graph;

	CHECK(driver->cuStreamBeginCapture_v2(own, (cu_capture_mode)CU_CAPTURE_GLOBAL) == CU_OK);
	CHECK(driver->cuCtxPopCurrent_v2(&context) == CU_OK);
	CHECK(driver->cuCtxGetCurrent(&none) == CU_OK && !none);
	FAILS(E_NOT_SUPPORTED, "captured", gpushare_event_record(event, own));
	FAILS(E_NOT_SUPPORTED, "captured", gpushare_event_wait(event, own));
	CHECK(driver->cuCtxPushCurrent_v2(context) == CU_OK);
	CHECK(driver->cuStreamEndCapture(own, &graph) == CU_OK && graph);
	CHECK(driver->cuCtxPopCurrent_v2(&context) == CU_OK);
	OK(gpushare_event_record(event, own));
	OK(gpushare_event_wait(event, own));
	OK(gpushare_event_wait_host(event, 1000));
	OK(gpushare_close(session));
}

static void lacking(void)
{
	static const char *const calls[] = {"cuIpcGetEventHandle", "cuIpcOpenEventHandle",
					    "cuEventQuery", "cuStreamWaitEvent"};
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED;
	char why[256];
	struct driver *table = (struct driver *)driver_open(why, sizeof(why));
	void **const entries[] = {
	    (void **)&table->cuIpcGetEventHandle, (void **)&table->cuIpcOpenEventHandle,
	    (void **)&table->cuEventQuery, (void **)&table->cuStreamWaitEvent};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		void *whole = *entries[i];

		*entries[i] = NULL;
		FAILS(E_NO_DRIVER, calls[i], gpushare_event_create(session, "e", -1, 0, &event));
		FAILS(E_NO_DRIVER, calls[i], gpushare_event_open(session, "e", NULL, &event));
		*entries[i] = whole;
	}
	table->cuThreadExchangeStreamCaptureMode =
	    NULL; /* as before CUDA 10.1; the API works without it */
	event = create(session, "e");
	OK(gpushare_event_query(event));
	OK(gpushare_close(session));
}

/* The first call of a driver function fails: nothing is left behind, and the next attempt works. */
static void create_failing(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = UNTOUCHED;
	struct gpushare_info info;
	int status = gpushare_event_create(session, "e", -1, 0, &event);

	CHECK(status == atoi(getenv("WANTED")) && event == UNTOUCHED);
	CHECK(strstr(gpushare_explain(), getenv("WORDS")));
	FAILS(E_NOT_FOUND, "e", gpushare_stat(session, "e", &info));
	event = create(session, "e");
	OK(gpushare_event_record(event, NULL));
	OK(gpushare_close(session));
}

static void use_failing(void)
{
	struct gpushare_session *session = part_session();
	struct gpushare_event *event = create(session, "e");
	int wanted = atoi(getenv("WANTED"));

	held_stop();
	OK(gpushare_event_record(event, held_stream()));
	CHECK(gpushare_event_wait(event, NULL) == wanted);
	CHECK(strstr(gpushare_explain(), getenv("WORDS")));
	FAILS(E_CUDA, "cuEventQuery", gpushare_event_wait_host(event, 1000));
	held_let_go();
	OK(gpushare_event_wait_host(event, 1000));
	FAILS(E_CUDA, "cuEventRecord", gpushare_event_record(event, NULL));
	OK(gpushare_event_record(event, NULL));
	FAILS(E_CUDA, "cuEventDestroy_v2", gpushare_event_close(event));
	OK(gpushare_event_close(create(session, "e")));
	OK(gpushare_close(session));
}

static void fault_in(const char *fail, int wanted, const char *words, void (*first)(void),
		     void (*second)(void))
{
	char number[16];

	snprintf(number, sizeof(number), "%d", wanted);
	setenv("GPUSHARE_SIM_FAIL", fail, 1);
	setenv("WANTED", number, 1);
	setenv("WORDS", words, 1);
	stage_play(first, second);
	unsetenv("GPUSHARE_SIM_FAIL");
}

static void fault(const char *fail, int wanted, const char *words, void (*part)(void))
{
	fault_in(fail, wanted, words, part, NULL);
}

static void test_faults(void **state)
{
	fault("cuEventCreate:1:1:2", GPUSHARE_E_NO_MEMORY, "4096", create_failing);
	fault("cuEventCreate:1:1", GPUSHARE_E_CUDA, "cuEventCreate", create_failing);
	fault("cuIpcGetEventHandle:1:1:801", GPUSHARE_E_NOT_SUPPORTED, "cuIpcGetEventHandle",
	      create_failing);
	fault("cuIpcGetEventHandle:1:1:205", GPUSHARE_E_CUDA, "MAP_FAILED", create_failing);
	fault("cuDeviceGetUuid:1:1", GPUSHARE_E_CUDA, "cuDeviceGetUuid_v2", create_failing);
	fault("cuCtxPushCurrent:1:1", GPUSHARE_E_CUDA, "cuCtxPushCurrent_v2", create_failing);
	fault("cuDevicePrimaryCtxRetain:1:1", GPUSHARE_E_CUDA, "cuDevicePrimaryCtxRetain",
	      create_failing);
	fault("cuStreamWaitEvent:1:1,cuEventQuery:1:1,cuEventRecord:2:1,cuEventDestroy:1:1",
	      GPUSHARE_E_CUDA, "cuStreamWaitEvent", use_failing);
}

static void keep(void)
{
	struct gpushare_session *session;

	unsetenv("GPUSHARE_SIM_FAIL"); /* the faults are for the other part only */
	session = part_session();
	create(session, "e");
	say();
	hear();
	OK(gpushare_close(session));
}

static void open_failing(void)
{
	struct gpushare_session *session;
	struct gpushare_event *event = UNTOUCHED;
	struct gpushare_info info;
	int status;

	hear();
	session = part_session();
	status = gpushare_event_open(session, "e", NULL, &event);
	CHECK(status == atoi(getenv("WANTED")) && event == UNTOUCHED);
	if (!strstr(gpushare_explain(), getenv("WORDS")))
		part_fail(__FILE__, __LINE__, "%s", gpushare_explain());
	OK(gpushare_stat(session, "e", &info));
	CHECK(!info.attachers);
	OK(gpushare_event_open(session, "e", NULL, &event));
	OK(gpushare_event_query(event));
	OK(gpushare_close(session));
	say();
}

static void open_fault(const char *fail, int wanted, const char *words)
{
	fault_in(fail, wanted, words, keep, open_failing);
}

static void test_open_faults(void **state)
{
	open_fault("cuIpcOpenEventHandle:1:1:205", GPUSHARE_E_CUDA, "/dev/shm");
	open_fault("cuIpcOpenEventHandle:1:1:400", GPUSHARE_E_OWNER_GONE, "unit_api_event");
	open_fault("cuIpcOpenEventHandle:1:1:1", GPUSHARE_E_OWNER_GONE, "INVALID_VALUE");
	open_fault("cuIpcOpenEventHandle:1:1:201", GPUSHARE_E_NOT_SUPPORTED, "same pid");
	open_fault("cuIpcOpenEventHandle:1:1:217", GPUSHARE_E_DEVICE, "another GPU");
	open_fault("cuIpcOpenEventHandle:1:1:801", GPUSHARE_E_NOT_SUPPORTED, "not supported");
	open_fault("cuIpcOpenEventHandle:1:1:2", GPUSHARE_E_NO_MEMORY, "cuIpcOpenEventHandle");
	open_fault("cuIpcOpenEventHandle:1:1", GPUSHARE_E_CUDA, "cuIpcOpenEventHandle");
	open_fault("cuCtxPushCurrent:1:1", GPUSHARE_E_CUDA, "cuCtxPushCurrent_v2");
	open_fault("cuDeviceGetCount:1:1", GPUSHARE_E_CUDA, "cuDeviceGetCount");
}

STAGE_MAIN(SCENE(leaver, left_behind), SCENE(keeper, threads), SCENE(bad_inputs), SCENE(contexts),
	   SCENE(captures), SCENE(captures_own), SCENE(lacking), STAGED(test_faults),
	   STAGED(test_open_faults))
