/* SPDX-License-Identifier: MIT */
/* The capture of a process's single capture stream, and how it ends. */
#include "capture.h"

#define STATUS_ACTIVE 1
#define STATUS_INVALIDATED 2

cu_stream capture_stream;

void capture_begin(int mode)
{
	const struct driver *driver = contract_load();

	if (!capture_stream)
		EXPECT(CU_OK, driver->cuStreamCreate(&capture_stream, CU_STREAM_NONBLOCKING));
	EXPECT(CU_OK, driver->cuStreamBeginCapture_v2(capture_stream, (cu_capture_mode)mode));
}

static void status_is(int expected)
{
	cu_capture_status status = (cu_capture_status)-1;

	EXPECT(CU_OK, contract_load()->cuStreamIsCapturing(capture_stream, &status));
	CHECK((int)status == expected);
}

void capture_ends_well(void)
{
	const struct driver *driver = contract_load();
	cu_graph graph = NULL;

	status_is(STATUS_ACTIVE);
	EXPECT(CU_OK, driver->cuStreamEndCapture(capture_stream, &graph));
	CHECK(graph != NULL);
	EXPECT(CU_OK, driver->cuGraphDestroy(graph));
	status_is(CU_CAPTURE_NONE);
}

void capture_ends_invalidated(void)
{
	cu_graph graph = (cu_graph)&graph;

	status_is(STATUS_INVALIDATED);
	EXPECT(CU_STREAM_CAPTURE_INVALIDATED,
	       contract_load()->cuStreamEndCapture(capture_stream, &graph));
	CHECK(graph == NULL);
	status_is(CU_CAPTURE_NONE);
}

static cu_context shared_context;
static cu_result (*thread_call)(void);
static cu_result thread_answer;

static void *on_thread(void *unused)
{
	EXPECT(CU_OK, contract_load()->cuCtxSetCurrent(shared_context));
	thread_answer = thread_call();
	return unused;
}

cu_result capture_elsewhere(cu_result (*call)(void))
{
	pthread_t thread;

	EXPECT(CU_OK, contract_load()->cuCtxGetCurrent(&shared_context));
	thread_call = call;
	CHECK(pthread_create(&thread, NULL, on_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	return thread_answer;
}

int capture_exchange(int mode)
{
	cu_capture_mode its = (cu_capture_mode)mode;

	EXPECT(CU_OK, contract_load()->cuThreadExchangeStreamCaptureMode(&its));
	return (int)its;
}
