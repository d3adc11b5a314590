/* SPDX-License-Identifier: MIT */
/* What else in a process waits with a stream that waits for a word; events of two contexts, in captures,
 * and how many there may be. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "facts.h"

#define PATIENCE_S 2
#define EVENTS_MAX 70000

static cu_stream waiting, other;
static _Atomic uint64_t *words;
static cu_deviceptr at, memory, spare;
static char *pinned;
static void *page, *large;

static void queue_nothing(void)
{
}

static void queue_in(void)
{
	facts_must("cuMemcpyHtoDAsync", cu.cuMemcpyHtoDAsync_v2(memory, pinned, BLOCK, waiting));
}

static void queue_out(void)
{
	facts_must("cuMemcpyDtoHAsync", cu.cuMemcpyDtoHAsync_v2(pinned, memory, BLOCK, waiting));
}

static void queue_both(void)
{
	queue_in();
	facts_must("cuStreamWriteValue64", cu.cuStreamWriteValue64_v2(waiting, at + 64, 1, 0));
	queue_out();
}

static void queue_memset(void)
{
	facts_must("cuMemsetD32Async", cu.cuMemsetD32Async(memory, 1, BLOCK / 4, waiting));
}

static cu_result do_in(void)
{
	return cu.cuMemcpyHtoD_v2(spare, page, 65536);
}

static cu_result do_out(void)
{
	return cu.cuMemcpyDtoH_v2(page, spare, 65536);
}

static cu_result do_out_large(void)
{
	return cu.cuMemcpyDtoH_v2(large, spare, BLOCK);
}

static cu_result do_out_async(void)
{
	cu_result result = cu.cuMemcpyDtoHAsync_v2(pinned + BLOCK, spare, 65536, other);

	return result ? result : cu.cuStreamSynchronize(other);
}

static cu_result do_alloc(void)
{
	cu_deviceptr pointer;

	return cu.cuMemAlloc_v2(&pointer, BLOCK);
}

static cu_result do_map(void)
{
	cu_mem_prop prop = facts_prop(CU_HANDLE_POSIX_FD);
	cu_mem_handle handle;
	cu_result result = cu.cuMemCreate(&handle, BLOCK, &prop, 0);

	if (!result)
		facts_map(handle, BLOCK);
	return result;
}

static cu_result do_register(void)
{
	return cu.cuMemHostRegister_v2(page, 65536, 0);
}

static cu_result do_unregister(void)
{
	return cu.cuMemHostUnregister(page);
}

static const struct {
	const char *what;
	void (*queue)(void);
} queued[] = {
    {"nothing", queue_nothing}, {"a copy in", queue_in},
    {"a copy out", queue_out},	{"a copy in, a write and a copy out", queue_both},
    {"a memset", queue_memset},
};

static const struct op {
	const char *what;
	cu_result (*call)(void);
} ops[] = {
    {"cuMemcpyHtoD", do_in},
    {"cuMemcpyDtoH", do_out},
    {"cuMemcpyDtoH of 2 MiB", do_out_large},
    {"cuMemcpyDtoHAsync elsewhere", do_out_async},
    {"cuMemAlloc", do_alloc},
    {"create and map", do_map},
    {"cuMemHostRegister", do_register},
    {"cuMemHostUnregister", do_unregister},
};

static void *run(void *argument)
{
	const struct op *op = argument;

	facts_must("cuCtxSetCurrent", cu.cuCtxSetCurrent(facts_context));
	return (void *)(uintptr_t)op->call();
}

static void ask_one(uint64_t number, size_t behind, const struct op *op)
{
	struct timespec until;
	char question[128];
	pthread_t thread;
	void *answer;
	bool waits;

	facts_must("cuStreamWaitValue64",
		   cu.cuStreamWaitValue64_v2(waiting, at, number, CU_WAIT_GEQ));
	queued[behind].queue();
	pthread_create(&thread, NULL, run, (void *)op);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	waits = pthread_timedjoin_np(thread, &answer, &until) != 0;
	atomic_store(words, number);
	if (waits)
		pthread_join(thread, &answer);
	facts_must("cuStreamSynchronize", cu.cuStreamSynchronize(waiting));
	snprintf(question, sizeof(question), "%s, while a stream waits with %s behind", op->what,
		 queued[behind].what);
	facts_say(question, "%s, %s", waits ? "waits too" : "does not wait",
		  facts_code((cu_result)(uintptr_t)answer));
}

void facts_order(void)
{
	uint64_t number = 0;

	facts_start();
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	page = aligned_alloc(65536, 65536);
	large = malloc(BLOCK);
	memset(page, 1, 65536);
	facts_must("cuMemHostRegister",
		   cu.cuMemHostRegister_v2((void *)words, 4096,
					   CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED));
	facts_must("cuMemHostGetDevicePointer",
		   cu.cuMemHostGetDevicePointer_v2(&at, (void *)words, 0));
	facts_must("cuMemHostAlloc", cu.cuMemHostAlloc((void **)&pinned, 2 * BLOCK, 0));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&memory, BLOCK));
	facts_must("cuMemAlloc", cu.cuMemAlloc_v2(&spare, BLOCK));
	facts_must("cuStreamCreate", cu.cuStreamCreate(&waiting, CU_STREAM_NONBLOCKING));
	facts_must("cuStreamCreate", cu.cuStreamCreate(&other, CU_STREAM_NONBLOCKING));
	for (size_t behind = 0; behind < sizeof(queued) / sizeof(*queued); behind++)
		for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++)
			ask_one(++number, behind, &ops[i]);
}

static cu_event shared_event(void)
{
	cu_event event = NULL;

	facts_must("cuEventCreate", cu.cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING));
	return event;
}

/* It may crash: in a process of its own, with a context of its own. */
static void record_elsewhere(void)
{
	cu_context context;
	cu_stream stream;
	cu_event event;
	int status;

	fflush(stdout);
	if (!fork()) {
		facts_start();
		event = shared_event();
		facts_must("cuCtxCreate", cu.cuCtxCreate_v2(&context, 0, 0));
		facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
		facts_ask("waiting for an event of another context",
			  cu.cuStreamWaitEvent(stream, event, 0));
		fflush(stdout);
		facts_ask("recording an event of another context", cu.cuEventRecord(event, stream));
		fflush(stdout);
		_exit(0);
	}
	wait(&status);
	facts_say("how that process ended, of a signal", "%d",
		  WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void record_captured(void)
{
	cu_event before = shared_event(), marked = shared_event();
	cu_capture_status status = CU_CAPTURE_NONE;
	cu_graph graph = NULL;
	cu_stream stream;

	facts_must("cuStreamCreate", cu.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	facts_must("cuEventRecord", cu.cuEventRecord(before, stream));
	facts_must("cuStreamBeginCapture",
		   cu.cuStreamBeginCapture_v2(stream, (cu_capture_mode)CU_CAPTURE_RELAXED));
	facts_ask("recording an interprocess event on a captured stream",
		  cu.cuEventRecord(marked, stream));
	facts_ask("  cuStreamIsCapturing", cu.cuStreamIsCapturing(stream, &status));
	facts_say("  its status (1: goes on, 2: is spoilt)", "%d", (int)status);
	facts_ask("  cuEventQuery of it", cu.cuEventQuery(marked));
	facts_ask("  waiting for it on the captured stream",
		  cu.cuStreamWaitEvent(stream, marked, 0));
	facts_ask("  cuStreamEndCapture", cu.cuStreamEndCapture(stream, &graph));
	facts_must("cuStreamBeginCapture",
		   cu.cuStreamBeginCapture_v2(stream, (cu_capture_mode)CU_CAPTURE_RELAXED));
	facts_ask("waiting on a captured stream for one that was recorded before",
		  cu.cuStreamWaitEvent(stream, before, 0));
	facts_ask("  cuStreamEndCapture", cu.cuStreamEndCapture(stream, &graph));
}

static void count_events(void)
{
	cu_result result = CU_OK;
	cu_event event;
	int count = 0;

	for (; count < EVENTS_MAX && !result; count += !result)
		result = cu.cuEventCreate(&event, CU_EVENT_SHARED | CU_EVENT_NO_TIMING);
	facts_say("interprocess events of a process", "%d, then %s", count, facts_code(result));
}

void facts_event(void)
{
	record_elsewhere();
	facts_start();
	record_captured();
	count_events();
}
