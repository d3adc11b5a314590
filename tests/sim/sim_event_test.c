/* SPDX-License-Identifier: MIT */
/* Test interprocess events of the simulated driver, beyond the facts that the contract tests
 * check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <signal.h>

#include "sim_calls.h"

#define WAITER_US 200000 /* longer than the driver's thread takes for a look */
#define CAPTURED 907

static unsigned int *word;

static cu_stream stream_new(void)
{
	cu_stream stream;

	CHECK(cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_OK);
	return stream;
}

static cu_stream held_up(unsigned int value)
{
	cu_stream stream = stream_new();
	void *pinned;

	if (!word) {
		CHECK(cu.cuMemHostAlloc(&pinned, 4096, 0) == CU_OK);
		word = pinned;
	}
	CHECK(cu.cuStreamWaitValue32_v2(stream, (uintptr_t)word, value, CU_WAIT_GEQ) == CU_OK);
	return stream;
}

static cu_event shared_event(void)
{
	cu_event event;

	CHECK(cu.cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING) == CU_OK);
	return event;
}

static int threads(void)
{
	DIR *folder = opendir("/proc/self/task");
	int count = -2; /* . and .. */

	CHECK(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* A stream that waits for an event waits for the record at that time, not for a later one. */
static void body_again(void)
{
	start();
	cu_event event = shared_event();
	cu_stream first = held_up(1), second = held_up(2), waiter = stream_new();
	CHECK(cu.cuEventQuery(event) == CU_OK);
	CHECK(cu.cuEventRecord(event, first) == CU_OK);
	CHECK(cu.cuStreamWaitEvent(waiter, event, 0) == CU_OK);
	CHECK(cu.cuEventRecord(event, second) == CU_OK);
	cu_event behind = shared_event();
	CHECK(cu.cuEventRecord(behind, waiter) == CU_OK);
	CHECK(cu.cuEventQuery(behind) == CU_NOT_READY && cu.cuEventQuery(event) == CU_NOT_READY);
	*word = 1;
	CHECK(cu.cuStreamSynchronize(waiter) == CU_OK && cu.cuEventQuery(behind) == CU_OK);
	CHECK(cu.cuEventQuery(event) == CU_NOT_READY);
	CHECK(cu.cuEventDestroy_v2(event) == CU_OK); /* its pending record is unaffected */
	CHECK(cu.cuEventQuery(event) == CU_INVALID_HANDLE);
	*word = 2;
	CHECK(cu.cuCtxSynchronize() == CU_OK);
}

/* The driver's thread exists only while a record is pending. */
static void body_thread(void)
{
	start();
	cu_event event = shared_event();
	int before = threads();
	CHECK(cu.cuEventRecord(event, NULL) == CU_OK && threads() == before);
	CHECK(cu.cuEventRecord(event, held_up(1)) == CU_OK && threads() == before + 1);
	*word = 1;
	while (threads() != before)
		usleep(1000);
	CHECK(cu.cuEventQuery(event) == CU_OK);
	CHECK(cu.cuEventRecord(event, held_up(2)) == CU_OK && threads() == before + 1);
	*word = 2;
	CHECK(cu.cuEventSynchronize(event) == CU_OK);
}

static void body_refused(void)
{
	cu_ipc_event_handle handle;
	cu_event plain, event = NULL;

	start();
	CHECK(cu.cuEventCreate(&plain, CU_EVENT_NO_TIMING) == CU_OK);
	CHECK(cu.cuIpcGetEventHandle(&handle, plain) == CU_INVALID_HANDLE);
	CHECK(cu.cuIpcGetEventHandle(NULL, shared_event()) == CU_INVALID_VALUE);
	memset(&handle, 0x33, sizeof(handle));
	CHECK(cu.cuIpcOpenEventHandle(&event, handle) == CU_INVALID_VALUE);
	CHECK(cu.cuStreamWaitEvent(NULL, plain, 1) == CU_INVALID_VALUE);
	CHECK(cu.cuStreamWaitEvent(NULL, (cu_event)(uintptr_t)64, 0) == CU_INVALID_HANDLE);
	CHECK(cu.cuStreamWaitEvent((cu_stream)(uintptr_t)64, plain, 0) == CU_INVALID_HANDLE);
}

/* An event that was recorded in a capture can't be used outside, until it is recorded outside. */
static void body_capture(void)
{
	cu_graph graph;

	start();
	cu_event event;
	cu_stream stream = stream_new(), other = stream_new();
	CHECK(cu.cuEventCreate(&event, CU_EVENT_NO_TIMING) == CU_OK);
	CHECK(cu.cuStreamBeginCapture_v2(stream, (cu_capture_mode)CU_CAPTURE_RELAXED) == CU_OK);
	CHECK(cu.cuEventRecord(event, stream) == CU_OK);
	CHECK(cu.cuEventSynchronize(event) == CAPTURED);
	CHECK(cu.cuStreamWaitEvent(other, event, 0) == CU_STREAM_CAPTURE_UNSUPPORTED);
	CHECK(cu.cuStreamEndCapture(stream, &graph) == CU_OK);
	CHECK(cu.cuEventQuery(event) == CAPTURED);
	CHECK(cu.cuEventRecord(event, other) == CU_OK && cu.cuEventQuery(event) == CU_OK);
}

static int to_owner[2], to_importer[2];

static void owner(void)
{
	cu_ipc_event_handle handle;
	char byte;

	start();
	cu_event pending = shared_event(), closed = shared_event();
	CHECK(cu.cuEventRecord(pending, held_up(1)) == CU_OK);
	CHECK(cu.cuIpcGetEventHandle(&handle, pending) == CU_OK);
	CHECK(write(to_importer[1], &handle, sizeof(handle)) == sizeof(handle));
	CHECK(cu.cuIpcGetEventHandle(&handle, closed) == CU_OK);
	CHECK(cu.cuEventDestroy_v2(closed) == CU_OK);
	CHECK(write(to_importer[1], &handle, sizeof(handle)) == sizeof(handle));
	CHECK(read(to_owner[0], &byte, 1) == 1);
	kill(getpid(), SIGKILL);
}

static pid_t owner_start(cu_ipc_event_handle *pending, cu_ipc_event_handle *closed)
{
	CHECK(!pipe(to_owner) && !pipe(to_importer));
	pid_t child = fork();
	if (!child)
		owner();
	start();
	CHECK(read(to_importer[0], pending, sizeof(*pending)) == sizeof(*pending));
	CHECK(read(to_importer[0], closed, sizeof(*closed)) == sizeof(*closed));
	return child;
}

static void owner_kill(pid_t child)
{
	int status;

	CHECK(write(to_owner[1], "", 1) == 1);
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

/* A killed process's pending record is never reached. The handle of an event that is open here can
 * be opened again. */
static void body_killed(void)
{
	cu_ipc_event_handle pending, closed;
	cu_event event, none = NULL;

	pid_t child = owner_start(&pending, &closed);
	CHECK(cu.cuIpcOpenEventHandle(&event, pending) == CU_OK);
	CHECK(cu.cuIpcOpenEventHandle(&none, closed) == CU_INVALID_HANDLE);
	CHECK(cu.cuIpcGetEventHandle(&closed, event) == CU_INVALID_HANDLE);
	CHECK(cu.cuEventQuery(event) == CU_NOT_READY);
	owner_kill(child);
	CHECK(cu.cuIpcOpenEventHandle(&none, pending) == CU_OK);
	CHECK(cu.cuEventQuery(none) == CU_NOT_READY);
	usleep(WAITER_US);
	CHECK(cu.cuEventQuery(event) == CU_NOT_READY);
	CHECK(cu.cuEventRecord(event, NULL) == CU_OK && cu.cuEventQuery(event) == CU_OK);
	CHECK(cu.cuEventDestroy_v2(event) == CU_OK);
}

/* If no event of a killed process is open here, its handles can't be opened (not measured). */
static void body_gone(void)
{
	cu_ipc_event_handle pending, closed;
	cu_event event = NULL;

	owner_kill(owner_start(&pending, &closed));
	CHECK(cu.cuIpcOpenEventHandle(&event, pending) == CU_INVALID_HANDLE);
}

/* Injected faults, also in the _ptsz twin. */
static void body_faults(void)
{
	cu_cuStreamWaitEvent_call *wait;
	cu_ipc_event_handle handle;
	cu_event event = NULL;

	start();
	event = shared_event();
	*(void **)&wait = dlsym(library, "cuStreamWaitEvent_ptsz");
	CHECK(wait && wait(NULL, event, 0) == 999 && cu.cuStreamWaitEvent(NULL, event, 0) == CU_OK);
	CHECK(cu.cuIpcGetEventHandle(&handle, event) == CU_MAP_FAILED);
	CHECK(cu.cuIpcGetEventHandle(&handle, event) == CU_OK);
	CHECK(cu.cuIpcOpenEventHandle(&event, handle) == CU_NOT_SUPPORTED);
	CHECK(cu.cuIpcOpenEventHandle(&event, handle) == CU_INVALID_CONTEXT);
}

static void test_bodies(void **state)
{
	IN_CHILD(body_again);
	IN_CHILD(body_thread);
	IN_CHILD(body_refused);
	IN_CHILD(body_capture);
	IN_CHILD(body_killed);
	IN_CHILD(body_gone);
	IN_CHILD(body_faults, "GPUSHARE_SIM_FAIL=cuStreamWaitEvent:1:1,cuIpcGetEventHandle:1:1:205,"
			      "cuIpcOpenEventHandle:1:1:801");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_bodies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
